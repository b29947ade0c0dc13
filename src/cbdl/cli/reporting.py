"""How commands speak: results to stdout, everything else to stderr, expected errors as a line and an exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import typer

from cbdl.tables.errors import UsageError


def note(text: str) -> None:
    """Whatever is no result: to stderr."""
    typer.echo(text, err=True)


def fail(text: str, code: int) -> NoReturn:
    """Say why, and leave with `code`."""
    note(text if code == 130 else f"Error: {text}")
    raise typer.Exit(code)


@contextmanager
def reported(stopped: Callable[[], str]) -> Iterator[None]:
    """Expected errors become a line on stderr and an exit code; `stopped` says how to go on after Ctrl-C."""
    try:
        yield
    except UsageError as error:
        fail(str(error), 2)
    except BrokenPipeError:
        _hush()
        raise typer.Exit(0) from None
    except (ValueError, ImportError, OSError) as error:
        fail(str(error), 1)
    except RuntimeError as error:
        if not _is_expected(error):
            raise
        fail(str(error), 1)
    except KeyboardInterrupt:
        fail(f"Stopped. {stopped()}", 130)


def _is_expected(error: RuntimeError) -> bool:
    """Whether training says that it cannot go on; its modules are imported by now, if any of it ran."""
    from cbdl.bayes.checkpoint import CheckpointError
    from cbdl.engines import WorkerError

    return isinstance(error, CheckpointError | WorkerError)


def _hush() -> None:
    """Whoever read the answers has seen enough, as `head` does: what is left goes nowhere, and it is no failure."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def print_json(answer: Any) -> None:
    """A result for programs: to stdout."""
    typer.echo(json.dumps(answer, allow_nan=False))
    sys.stdout.flush()
