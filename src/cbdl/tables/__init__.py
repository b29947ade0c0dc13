"""From a file to numbers and back: types, levels, missing values; a table to a model, a model to answers.

Every name is imported when it is first asked for: the command line knows its errors before it waits for torch.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from cbdl.tables.columns import learn_columns
    from cbdl.tables.encoding import Column, Encoded, encode, encode_rows, from_json, to_json
    from cbdl.tables.errors import TableError, UsageError
    from cbdl.tables.files import Dialect, chunks, from_frame, read
    from cbdl.tables.writing import split_set

__all__ = [
    "Column",
    "Dialect",
    "Encoded",
    "TableError",
    "UsageError",
    "chunks",
    "encode",
    "encode_rows",
    "from_frame",
    "from_json",
    "learn_columns",
    "read",
    "split_set",
    "to_json",
]

_HOMES = {
    "columns": ("learn_columns",),
    "encoding": ("Column", "Encoded", "encode", "encode_rows", "from_json", "to_json"),
    "errors": ("TableError", "UsageError"),
    "files": ("Dialect", "chunks", "from_frame", "read"),
    "writing": ("split_set",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> _Any:
    if name not in _HOME:
        raise AttributeError(f"module 'cbdl.tables' has no attribute {name!r}")
    value = getattr(_import_module(f"cbdl.tables.{_HOME[name]}"), name)
    globals()[name] = value
    return value
