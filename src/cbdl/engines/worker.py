"""A worker process of `Processes`: takes jobs from its standard input, answers on its standard output.

It ends when its input does. So when the run is killed its workers stop at the next step, save, and go.
"""

from __future__ import annotations

import os
import pickle
import queue
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from cbdl.bayes.progress import Progress
from cbdl.bayes.rows import TrainingData

from .board import Place
from .job import Packed, perform


def write(stream: IO[bytes], message: Any) -> None:
    """One message as a frame: its length, then its pickle."""
    blob = pickle.dumps(message, protocol=5)
    stream.write(struct.pack("<Q", len(blob)))
    stream.write(blob)
    stream.flush()


def read(stream: IO[bytes]) -> Any:
    """The next message; an EOFError when the other side is gone."""
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    (length,) = struct.unpack("<Q", head)
    blob = stream.read(length)
    if len(blob) < length:
        raise EOFError
    return pickle.loads(blob)


@lru_cache(maxsize=1)
def shared(folder: str, packed: Packed) -> TrainingData:
    """The data: its tensors are mapped from files, so that all workers share one copy in memory."""
    names = [Path(folder) / f"data-{i}.npy" for i in range(len(packed.kinds))]
    # a file without bytes cannot be mapped; a map begins at a page and the content of a .npy file at 64 bytes
    empty = [0 in shape for _, shape in packed.kinds]
    arrays = [np.load(n, mmap_mode=None if e else "r") for n, e in zip(names, empty, strict=True)]
    return packed.unpack(arrays)


class Line:
    """The line to the run: jobs and a stop request come in, progress and outcomes go out."""

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes]) -> None:
        self.incoming, self.outgoing = incoming, outgoing
        self.jobs: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self.stop = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        try:
            while True:
                message = read(self.incoming)
                if message == "stop":
                    self.stop.set()
                else:
                    self.jobs.put(message)
        except (EOFError, OSError, pickle.UnpicklingError):
            self.stop.set()
            self.jobs.put(None)

    def send(self, *message: Any) -> None:
        with suppress(OSError):  # the run is gone; this process ends soon, too
            write(self.outgoing, message)

    @contextmanager
    def display(self, label: str, steps: int, epochs: int) -> Iterator[Progress]:
        yield _Sent(self, steps)


class _Sent:
    """Progress that is shown by the run."""

    def __init__(self, line: Line, steps: int) -> None:
        self.line, self.steps, self.last = line, steps, 0.0

    def due(self, last: bool = False) -> bool:
        return last or time.monotonic() - self.last >= 0.25

    def update(self, step: int, epoch: int, loss: float) -> None:
        self.last = time.monotonic()
        self.line.send("progress", Place(step, self.steps, loss))


def main() -> None:
    """Jobs until there are no more."""
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # what a network prints must not get into the answers
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    line = Line(incoming, outgoing)
    line.send("ready", None)
    while (job := line.jobs.get()) is not None:
        blob, folder, packed = job
        outcome = perform(blob, lambda f=folder, p=packed: shared(f, p), line.stop.is_set, line.display)  # type: ignore[misc]
        line.send("outcome", outcome)
