"""Files of tracks as they are found: rows of numbers between commas, semicolons, tabs or blanks.

Lines that start with # are comments. Names of columns may stand in a comment or in a line of their own; where they are
the known ones in another order, the numbers follow the names.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cbdl.studies.racing.curves import FloatArray

SEPARATORS = (",", ";", "\t", None)
"""None: blanks, as many as there are."""
ENCODINGS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
"""By their first bytes; everything else is UTF-8."""


def find_file(path: Path, pattern: str) -> Path:
    """The file itself, or the one of a folder that matches the pattern."""
    if path.is_dir():
        files = sorted(path.glob(pattern))
        if len(files) != 1:
            raise FileNotFoundError(f"{path}: {len(files)} files match {pattern}; give the path of one file")
        return files[0]
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file; give a track's {pattern} or the folder that holds it")
    return path


def read_numbers(file: Path, columns: Sequence[str], kind: str, usual: str) -> tuple[FloatArray, list[int]]:
    """The numbers of a file (N, columns), and the line each row stands on; `usual` is how such files are separated."""
    lines = [(n, line.strip()) for n, line in enumerate(_text(file, kind).splitlines(), start=1)]
    comments = [line.lstrip("# ") for _, line in lines if line.startswith("#")]
    filled = [(n, line) for n, line in lines if line and not line.startswith("#")]
    if filled and _is_header(filled[0][1]):
        comments.append(filled.pop(0)[1])
    if not filled:
        raise ValueError(f"{file}: no rows of numbers; a {kind} file has the columns {', '.join(columns)}")
    separator = _separator(filled[0][1], len(columns), usual)
    names = _named(comments, columns)
    rows = [
        _numbers(f"{file}, line {n}", line.split(separator), names, kind, separator) for n, line in filled
    ]
    return np.array(rows)[:, [names.index(name) for name in columns]], [n for n, _ in filled]


def _text(file: Path, kind: str) -> str:
    content = file.read_bytes()
    try:
        return content.decode(ENCODINGS.get(content[:2], "utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not a text file ({error.reason}); give a CSV file of a {kind}") from error


def _is_header(line: str) -> bool:
    """Names of columns: several words, none of them a number."""
    words = re.split(r"[,;\s]+", line.strip(",; \t"))
    return len(words) > 1 and not any(_is_number(word) for word in words)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _separator(line: str, count: int, usual: str) -> str | None:
    """The separator that makes so many columns of a line, or else the one that makes most."""
    choices = (usual, *SEPARATORS)
    return max(choices, key=lambda own: (len(line.split(own)) == count, len(line.split(own))))


def _named(comments: Sequence[str], columns: Sequence[str]) -> Sequence[str]:
    """The columns in the order in which a comment names them, or in the usual one."""
    for comment in comments:
        words = re.split(r"[,;\s]+", comment.strip(",; \t"))
        if sorted(words) == sorted(columns):
            return words
    return columns


def _numbers(
    place: str, cells: Sequence[str], columns: Sequence[str], kind: str, separator: str | None
) -> list[float]:
    if len(cells) != len(columns):
        raise ValueError(
            f"{place}: {len(cells)} columns, separated by {separator or 'blanks'!r}; a {kind} file has {len(columns)}: "
            f"{', '.join(columns)}; is it another kind of file?"
        )
    values = []
    for name, cell in zip(columns, cells, strict=True):
        try:
            values.append(float(cell))
        except ValueError:
            hint = " (decimals have a point)" if "," in cell else ""
            message = f"{place}: {name} is {cell.strip()!r}, not a number{hint}; mend or remove this line"
            raise ValueError(message) from None
        if not np.isfinite(values[-1]):
            raise ValueError(f"{place}: {name} is {cell.strip()}; mend or remove this line")
    return values
