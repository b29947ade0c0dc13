"""Small tables for people: HTML that notebooks show, and data frames of whichever library is there.

The HTML names no colours of its own, so that it reads in dark and in light notebooks; every text is escaped.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.util import find_spec
from typing import Any

LIBRARIES = ("pandas", "polars")
LINE = "border-bottom:1px solid rgba(128,128,128,.45)"


def html_table(
    title: str, header: Sequence[str], rows: Iterable[Sequence[Any]], notes: Sequence[str] = ()
) -> str:
    """A titled table with remarks below it; numbers are right-aligned, and a column without any entry is left out.

    >>> html_table("a < b", ["x"], [[1.0]]).count("&lt;")
    1
    """
    whole = [list(row) for row in rows]
    shown = [j for j in range(len(header)) if not whole or any(cell(row[j]) for row in whole)]
    sides = ["left" if all(isinstance(row[j], str | list) for row in whole) else "right" for j in shown]
    head = "".join(
        _cell("th", header[j].replace("_", " "), side) for j, side in zip(shown, sides, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(_cell('td', cell(row[j]), side) for j, side in zip(shown, sides, strict=True))}</tr>"
        for row in whole
    )
    below = "".join(f'<p style="margin:.3em 0">{escape(note)}</p>' for note in notes)
    return (
        f'<div><p style="margin:.6em 0 .3em"><strong>{escape(title)}</strong></p>'
        f'<table style="border-collapse:collapse;background:none;color:inherit"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>{below}</div>"
    )


def _cell(tag: str, text: str, side: str) -> str:
    extra = f' scope="col" style="{LINE};' if tag == "th" else ' style="'
    return f'<{tag}{extra}text-align:{side};padding:.1em .5em">{escape(text)}</{tag}>'


def cell(value: Any) -> str:
    """A value as a table shows it: numbers to four digits, lists in braces, nothing where there is nothing.

    >>> cell(0.123456), cell(["cat", "dog"]), cell(None), cell(float("nan"))
    ('0.1235', '{cat, dog}', '', '')
    """
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, bool | int | str):
        return str(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        inside = [_interval(v) if isinstance(v, tuple) else cell(v) for v in value]
        return "{" + ", ".join(inside) + "}"
    return str(value)


def _interval(ends: tuple[Any, ...]) -> str:
    return "[" + ", ".join(map(cell, ends)) + "]"


def frame(columns: Mapping[str, Any], library: str | None = None) -> Any:
    """A DataFrame of the named library; None: of one that is in use already, else of one that is installed."""
    if library is None:
        there = [name for name in LIBRARIES if find_spec(name) is not None]
        library = next((name for name in there if name in sys.modules), there[0] if there else None)
    if library is None:
        raise ImportError("a data frame needs pandas or polars; install one of them")
    if library not in LIBRARIES:
        raise ValueError(f'library is {library!r}; give "pandas" or "polars"')
    try:
        module = importlib.import_module(library)
    except ImportError:
        raise ImportError(f"library is {library!r}, which is not installed; pip install {library}") from None
    return module.DataFrame(dict(columns))
