"""The report of a study: a folder with a page, its tables as Markdown and CSV, the figures and the numbers."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from cbdl import files, plots
from cbdl.studies.part import Part
from cbdl.tables.files import UsageError

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


def write(
    folder: Path, title: str, parts: Sequence[Part], note: Callable[[str], None] = lambda text: None
) -> Path:
    """Write the report and return its page. Without matplotlib there are no figures, and `note` hears so."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = plots.available()
    if not drawn:
        note('matplotlib is not installed, so there are no figures; pip install "cbdl[plots]"')
    for part in parts:
        if drawn and part.draw is not None:
            plots.save(part.draw, folder / f"{part.name}.png")
        with files.whole(folder / f"{part.name}.csv") as file:
            csv.writer(file, lineterminator="\n").writerows([part.header, *part.rows])
    with files.whole(folder / "numbers.json") as file:
        json.dump({part.name: part.numbers for part in parts}, file, indent=1, allow_nan=False)
    files.write(folder / "RESULTS.md", _markdown(title, parts, drawn))
    page = folder / "index.html"
    body = "\n".join(_section(part, drawn) for part in parts)
    files.write(
        page,
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n<h1>{escape(title)}</h1>\n{body}\n</html>\n",
    )
    return page


def _markdown(title: str, parts: Sequence[Part], drawn: bool) -> str:
    """The parts as one page of Markdown."""
    lines = [f"# {title}", ""]
    for part in parts:
        lines += [f"## {part.title}", "", part.text, ""]
        lines += [_line(part.header), _line(["---", *["---:"] * (len(part.header) - 1)])]
        lines += [*map(_line, part.rows), ""]
        for lesson in part.lessons:
            lines += [lesson, ""]
        if drawn and part.draw is not None:
            lines += [f"![{part.caption}]({part.name}.png)", ""]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _section(part: Part, drawn: bool) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in part.header)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{escape(value)}</td>" for value in row) + "</tr>" for row in part.rows
    )
    lessons = "\n".join(f"<p>{escape(line)}</p>" for line in part.lessons)
    figure = (
        f'<figure><img src="{part.name}.png" alt="{escape(part.caption)}">'
        f"<figcaption>{escape(part.caption)}</figcaption></figure>\n"
        if drawn and part.draw is not None
        else ""
    )
    return (
        f"<h2>{escape(part.title)}</h2>\n<p>{escape(part.text)}</p>\n<table>\n<tr>{head}</tr>\n{rows}\n</table>\n"
        f"{lessons}\n{figure}"
    )
