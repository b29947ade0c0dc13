"""The figures of gallery.md: its blocks of code run one after the other, each figure written to where the page has it.

`python docs/gallery.py` makes them all, `python docs/gallery.py readme` the one of the README.
"""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
BLOCK = re.compile(r"```python\n(.*?)```\n(?:!\[[^\]]*\]\(([^)]+)\))?", re.S)
README = HERE / "_static" / "fit.png"
FIRST = "_gallery/band.svg"


def blocks(page: str) -> list[tuple[str, str]]:
    """(code, path of its figure) of every block of a page; the path is empty where no figure follows."""
    return [(code, path) for code, path in BLOCK.findall(page)]


def draw(folder: Path, only: str | None = None) -> list[Path]:
    """Run the page's code; its figures in `folder`, at the paths that the page shows, up to `only`."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    made, names = [], dict[str, object]()
    with warnings.catch_warnings(), mpl.rc_context({"svg.hashsalt": "gallery"}):
        warnings.simplefilter("ignore")
        for code, path in blocks((HERE / "gallery.md").read_text()):
            exec(compile(code, "gallery.md", "exec"), names)
            if path:
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                names["ax"].figure.savefig(target, metadata={"Date": None})  # type: ignore[attr-defined]
                made.append(target)
                if path == only:
                    break
                pyplot.close("all")
    return made


def draw_readme() -> None:
    """The first figure, as the README shows it."""
    from matplotlib import pyplot

    draw(HERE, FIRST)
    pyplot.gcf().savefig(README, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    draw_readme() if sys.argv[1:] == ["readme"] else draw(HERE)
