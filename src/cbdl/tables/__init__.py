"""From a file to numbers and back: types, levels, missing values; a table to a model, a model to answers."""

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
