"""How commands speak: results to stdout, everything else to stderr, expected errors as a line and an exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer

from cbdl.bayes.checkpoint import CheckpointError
from cbdl.engines import WorkerError
from cbdl.tables.files import UsageError


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
        raise
    except (ValueError, ImportError, OSError, CheckpointError, WorkerError) as error:
        fail(str(error), 1)
    except KeyboardInterrupt:
        fail(f"Stopped. {stopped()}", 130)


def print_json(answer: Any) -> None:
    """A result for programs: to stdout."""
    typer.echo(json.dumps(answer, allow_nan=False))
