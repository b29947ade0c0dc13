"""How a process that is one command and nothing else starts sooner: by what it leaves out on the way to its work."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

_ours = False


def own_process() -> None:
    """Say that this process is one command: nobody else's modules are in it."""
    global _ours
    _ours = True


def open_streams() -> None:
    """Streams that were closed, as by `>&-`, lead nowhere: what is opened next would take their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  as long as the process


@contextmanager
def imports() -> Iterator[None]:
    """Around imports of what is heavy. They make half a million objects, all of which stay, and which Python would look
    through again and again for garbage: a tenth of the time, and once more at the end."""
    if not _ours or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class _NoPandas(MetaPathFinder):
    """For whom pandas is not installed."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"no module {name!r} is needed here", name=name)


def no_frames() -> None:
    """Say that Arrow meets no data frames here. With its first array, and again with the first that numpy asks for, it
    would import pandas, if that is installed, to know some: a third of a second."""
    if not _ours or "pandas" in sys.modules:
        return
    import pyarrow as pa

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0.0]).to_numpy(zero_copy_only=False)
    finally:
        sys.meta_path.remove(finder)
