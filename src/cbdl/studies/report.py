"""The report of a study: one page that needs nothing else; beside it its tables, figures and numbers as files."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cbdl import plots, report
from cbdl.ground import files
from cbdl.report import Block, Figure, Page, Section, Table, reproduction
from cbdl.studies.part import Part
from cbdl.tables import writing
from cbdl.tables.errors import UsageError


def check(out: str | Path) -> None:
    """A UsageError if no report can be written to `out`."""
    if Path(out).exists() and not Path(out).is_dir():
        raise UsageError(f"--out is {out}, which is a file; give a folder")
    writing.check_place(Path(out), Path(out))


def write(
    folder: Path,
    title: str,
    parts: Sequence[Part],
    note: Callable[[str], None] = lambda text: None,
    command: str = "",
    settings: Mapping[str, object] | None = None,
) -> Path:
    """Write the report and return its page. Without matplotlib there are no figures, and `note` hears so."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = plots.available()
    if not drawn:
        note('matplotlib is not installed, so there are no figures; pip install "cbdl[plots]"')
    for part in parts:
        with files.whole(folder / f"{part.name}.csv") as file:
            csv.writer(file, lineterminator="\n").writerows([part.header, *part.rows])
    with files.whole(folder / "numbers.json") as file:
        json.dump({part.name: part.numbers for part in parts}, file, indent=1, allow_nan=False)
    files.write(folder / "RESULTS.md", _markdown(title, parts, drawn))
    return report.write(page(title, parts, folder, command, settings), folder / "index.html")


def page(
    title: str,
    parts: Sequence[Part],
    folder: Path,
    command: str = "",
    settings: Mapping[str, object] | None = None,
) -> Page:
    """The parts of a study as a page; its figures also become files of the folder when it is written."""
    last = [reproduction(command, settings)] if command else []
    return Page(title, [], [*(_section(part, folder) for part in parts), *last], "Written by cbdl.")


def _section(part: Part, folder: Path) -> Section:
    png = folder / f"{part.name}.png"
    figure = [] if part.draw is None else [Figure(part.name, part.caption, part.draw, png)]
    blocks: list[Block] = [
        part.text,
        Table("In numbers", part.header, part.rows),
        *part.lessons,
        *figure,
        *part.details,
    ]
    return Section(part.title, blocks)


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
