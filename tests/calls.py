"""The command line, called in this process."""

from __future__ import annotations

from typer.testing import CliRunner

from cbdl import cli


def called(*arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `cbdl` with these arguments."""
    result = CliRunner().invoke(cli.app, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr
