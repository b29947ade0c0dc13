"""What a report is made of, and how it becomes one HTML file.

A page has sections, a section has blocks: a paragraph (text), a `Table` that sorts, a `Figure` as inline SVG, a `Warn`,
a piece of `Code`. The looks are in page.css, the frame in page.html, the sorting in page.js, beside this file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files as resources
from pathlib import Path
from string import Template
from typing import Any, TypeAlias

from cbdl import plots
from cbdl.ground import files
from cbdl.report.svg import inline

WIDE = 6.5
"""Inches from which on a figure may be moved sideways on a narrow screen rather than shrink."""


@dataclass(frozen=True)
class Table:
    """A table as text; `caption` says what it shows."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure: `draw` puts it on a matplotlib Figure; `name` is unique on the page.

    `png` names a file that is to have the same picture; it is written with the page.
    """

    name: str
    caption: str
    draw: Callable[[Any], object] = field(repr=False)
    png: Path | None = None


@dataclass(frozen=True)
class Warn:
    """What a reader must not overlook."""

    text: str


@dataclass(frozen=True)
class Code:
    """Lines for a terminal or for Python."""

    text: str


Block: TypeAlias = str | Table | Figure | Warn | Code


@dataclass(frozen=True)
class Section:
    """A titled part of a page; subsections have the level 3."""

    title: str
    blocks: Sequence[Block]
    level: int = 2


@dataclass(frozen=True)
class Page:
    """A report: its title, what it says in a few sentences, its sections."""

    title: str
    lead: Sequence[str]
    sections: Sequence[Section]
    footer: str = ""


def write(page: Page, path: str | Path) -> Path:
    """The page as the file `path`, which appears whole or not at all."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    files.write(target, html(page))
    return target


def html(page: Page) -> str:
    """The page as one HTML document without any reference to something outside of it."""
    places = _places(page.sections)
    body = zip(places, page.sections, strict=True)
    links = "".join(
        f'<li><a href="#{place}">{escape(own.title)}</a></li>\n'
        for place, own in zip(places, page.sections, strict=True)
        if own.level == 2
    )
    return Template(_resource("page.html")).substitute(
        title=escape(page.title),
        style=_resource("page.css"),
        script=_resource("page.js"),
        lead="".join(f"<p>{escape(text)}</p>\n" for text in page.lead),
        links=links,
        sections="".join(_section(place, own) for place, own in body),
        footer=escape(page.footer),
    )


def _resource(name: str) -> str:
    return (resources("cbdl.report") / name).read_text(encoding="utf-8")


def _places(sections: Sequence[Section]) -> list[str]:
    """An id per section, made of its title, each different."""
    places: list[str] = []
    for section in sections:
        word = f"section-{_word(section.title)}"
        places.append(word if word not in places else f"{word}-{len(places)}")
    return places


def _word(text: str) -> str:
    """Text as part of an id."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _section(place: str, section: Section) -> str:
    blocks = "".join(map(_block, section.blocks))
    head = f"<h{section.level}>{escape(section.title)}</h{section.level}>"
    return f'<section id="{place}">\n{head}\n{blocks}</section>\n'


def _block(block: Block) -> str:
    if isinstance(block, str):
        return f"<p>{escape(block)}</p>\n"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Figure):
        return _figure(block)
    if isinstance(block, Warn):
        return f'<div class="warning" role="note"><strong>Warning:</strong> {escape(block.text)}</div>\n'
    return f'<pre tabindex="0"><code>{escape(block.text)}</code></pre>\n'


def _table(table: Table) -> str:
    sides = [_side(table.rows, j) for j in range(len(table.header))]
    head = "".join(
        f'<th scope="col"{side}>{escape(name)}</th>' for name, side in zip(table.header, sides, strict=True)
    )
    rows = "\n".join(
        "<tr>" + "".join(f"<td{s}>{escape(cell)}</td>" for s, cell in zip(sides, row, strict=True)) + "</tr>"
        for row in table.rows
    )
    note = f'<p class="note">{escape(table.note)}</p>\n' if table.note else ""
    return (
        f'<div class="scroll" role="group" aria-label="{escape(table.caption)}" tabindex="0">\n<table>\n'
        f"<caption>{escape(table.caption)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n"
        f"</table>\n</div>\n{note}"
    )


def _side(rows: Sequence[Sequence[str]], column: int) -> str:
    """Numbers are aligned to the right."""
    texts = [row[column].strip() for row in rows if row[column].strip() not in ("", "-")]
    numbers = texts and all(re.match(r"^[-+<>]?\d[\d.,e+-]*\s?%?( \[.*\])?$", text) for text in texts)
    return ' class="number"' if numbers else ""


def _figure(figure: Figure) -> str:
    if not plots.available():
        return '<p class="note">matplotlib is not installed, so there is no figure: pip install "cbdl[plots]".</p>\n'
    svg, width = inline(figure.draw, f"figure-{_word(figure.name)}", figure.caption, figure.png)
    wide = (
        f' class="scroll" role="group" aria-label="{escape(figure.caption)}" tabindex="0"'
        if width > WIDE
        else ""
    )
    return (
        f"<figure>\n<div{wide}>\n{svg}</div>\n<figcaption>{escape(figure.caption)}</figcaption>\n</figure>\n"
    )
