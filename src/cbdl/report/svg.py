"""A matplotlib figure as SVG inside of a page: in the page's own ink, so that it reads on dark and on light ground."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from cbdl.plots.style import COLOURS

INK = "#010101"
"""What is drawn in this colour takes the page's; so do all greys, as much lighter as they are."""
LOOKS: dict[str, Any] = {
    "svg.fonttype": "path",
    "savefig.transparent": True,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
}
POINTS = 72
PNG = 150
"""Dots per inch of the same figure as a file."""
GREY = re.compile(r"(stroke|fill): ?#([0-9a-f]{2})\2\2\b(?:; ?\1-opacity: ?([\d.]+))?")


def inline(
    draw: Callable[[Any], object], place: str, caption: str, png: Path | None = None
) -> tuple[str, float]:
    """What `draw` puts on a Figure as an <svg> element, and its width in inches; ids begin with `place`.

    The same picture on white ground goes into the file `png`, if one is named: it is drawn and laid out once.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    looks: Any = {**LOOKS, "svg.hashsalt": place}
    with mpl.rc_context(looks):
        figure = Figure(layout="constrained")
        draw(figure)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # everything has its place now
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        if png is not None:
            figure.savefig(png, format="png", dpi=PNG, transparent=False)
    return _element(buffer.getvalue(), place, caption), float(figure.get_size_inches()[0])


def _element(text: str, place: str, caption: str) -> str:
    """The <svg> element of a file that matplotlib wrote."""
    view = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    assert view is not None
    width = float(view[1]) / POINTS
    inside = text[text.index(">", text.index("<svg")) + 1 : text.rindex("</svg>")]
    inside = re.sub(r"<metadata>.*?</metadata>", "", inside, flags=re.S)
    # a style element in a page is for the whole page, which has these rules by itself
    inside = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", inside, flags=re.S)
    inside = re.sub(r"<!--.*?-->", "", inside, flags=re.S)
    inside = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{place}-", inside)
    inside = GREY.sub(_in_ink, inside)
    for number, colour in enumerate(COLOURS):  # the page has a lighter one on dark ground
        inside = inside.replace(f": {colour}", f": var(--series-{number})")
    inside = _explicit_ink(re.sub(r"\n\s*\n+", "\n", inside))
    return (
        f'<svg role="img" aria-label="{escape(caption)}" viewBox="{view[0][9:-1]}" width="{96 * width:.0f}" '
        f'xmlns:xlink="http://www.w3.org/1999/xlink">{inside}</svg>\n'
    )


def _in_ink(found: re.Match[str]) -> str:
    """A grey as ink of that strength: black is all of it, white none."""
    kind, level, own = found[1], int(found[2], 16), float(found[3] or 1)
    if level > 250:  # white hides what is below it
        return f"{kind}: var(--ground)" if found[3] is None else found[0]
    return f"{kind}: currentColor; {kind}-opacity: {own * (1 - level / 255):.3g}"


def _explicit_ink(text: str) -> str:
    """Glyphs and marks without a fill of their own are black in a file; here they are ink."""
    return f'<g fill="currentColor">{text}</g>'
