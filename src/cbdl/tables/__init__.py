"""From a file to numbers and back: types, levels, missing values; a table to a model, a model to answers."""

from cbdl.tables.columns import Column, encode, from_json, learn_columns, to_json
from cbdl.tables.files import TableError, UsageError, chunks, read, write_rows

__all__ = [
    "Column",
    "TableError",
    "UsageError",
    "chunks",
    "encode",
    "from_json",
    "learn_columns",
    "read",
    "to_json",
    "write_rows",
]
