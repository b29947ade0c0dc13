"""Ctrl-C in a training: a stop at the next step boundary, so that a checkpoint can be written."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


class Stop:
    """Ctrl-C asks for a stop at the next step boundary; a second Ctrl-C is an ordinary one."""

    def __init__(self, ask: Callable[[], bool] | None) -> None:
        self.ask, self.pressed = ask, False
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Stop:
        self._stack.enter_context(self._listening())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread may listen; elsewhere `ask` is the way
            return
        before = signal.getsignal(signal.SIGINT)

        def press(number: int, frame: object) -> None:
            self.pressed = True
            signal.signal(signal.SIGINT, before)

        signal.signal(signal.SIGINT, press)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def asked(self) -> bool:
        return self.pressed or (self.ask is not None and self.ask())
