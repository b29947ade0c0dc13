"""The demo's report: a folder with `index.html`, the figures and the numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from cbdl import plots
from cbdl.demo.part import Part
from cbdl.tables import UsageError, whole_file

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .9rem .25rem 0; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; } figcaption { color: #555; } figure { margin: 1rem 0; }
"""


def check(out: str | Path) -> None:
    """A UsageError if no report can be written to `out`."""
    if Path(out).exists() and not Path(out).is_dir():
        raise UsageError(f"--out is {out}, which is a file; give a folder")


def write(out: str | Path, parts: Sequence[Part], note: Callable[[str], None]) -> Path:
    """Write the report and return its page. Without matplotlib there are no figures, and `note` hears so."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = plots.available()
    if not drawn:
        note('matplotlib is not installed, so there are no figures; pip install "cbdl[plots]"')
    for part in parts if drawn else ():
        plots.save(part.draw, folder / f"{part.name}.png")
    with whole_file(folder / "numbers.json") as file:
        json.dump({part.name: part.numbers for part in parts}, file, indent=1, allow_nan=False)
    page = folder / "index.html"
    with whole_file(page) as file:
        body = "\n".join(_section(part, drawn) for part in parts)
        file.write(
            f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>cbdl demo</title>\n'
            f"<style>{STYLE}</style>\n<h1>What the model knows, and what it does not</h1>\n{body}\n</html>\n"
        )
    return page


def _section(part: Part, drawn: bool) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in part.header)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{escape(value)}</td>" for value in row) + "</tr>" for row in part.rows
    )
    lessons = "\n".join(f"<p>{escape(line)}</p>" for line in part.lessons)
    figure = (
        f'<figure><img src="{part.name}.png" alt="{escape(part.caption)}">'
        f"<figcaption>{escape(part.caption)}</figcaption></figure>\n"
        if drawn
        else ""
    )
    return (
        f"<h2>{escape(part.title)}</h2>\n<p>{escape(part.text)}</p>\n<table>\n<tr>{head}</tr>\n{rows}\n</table>\n"
        f"{lessons}\n{figure}"
    )
