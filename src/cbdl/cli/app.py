"""The command line: which commands there are. Each is read when it is called, so that --help does not wait for torch.

Results go to stdout, everything else to stderr; 0 success, 1 failure, 2 usage error.
"""

from __future__ import annotations

import importlib
import warnings
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cbdl.cli import start
from cbdl.cli.settings import SETTINGS

COMMANDS: dict[str, tuple[str, str]] = {
    "fit": ("cbdl.cli.fit", "Train a credal set of Bayesian networks on a table."),
    "predict": ("cbdl.cli.predict", "Answer for every row of a table, or of many."),
    "evaluate": ("cbdl.cli.evaluate", "Score a model on a table with outcomes."),
    "report": ("cbdl.cli.report", "Write a report about a model: one HTML file."),
    "serve": ("cbdl.cli.serve", "Serve a model over HTTP, with a page to try it."),
    "info": ("cbdl.cli.info", "Say what a saved model is."),
    "demo": ("cbdl.cli.demo", "Show the point in about a minute."),
    "study": ("cbdl.cli.study", "Run a study and write its report."),
    "data": ("cbdl.cli.data", "Data sets of images: list them, download them."),
}
"""The module of every command, and what it does in a line."""


class Commands(TyperGroup):
    """Commands that are imported when they are called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


app = typer.Typer(
    cls=Commands,
    help="Credal Bayesian Deep Learning: say how much is noise, how much is ignorance, and decide safely.",
    epilog="\b\nExample:\n  cbdl fit data.csv --target y --out model && cbdl predict model new.csv",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    **SETTINGS,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cbdl {version('cbdl')}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _show_warning(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
    typer.echo(f"Warning: {message}", err=True)


def main() -> None:
    start.open_streams()
    warnings.showwarning = _show_warning
    start.own_process()
    try:
        app()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # as with `| head`: no failure, whatever was shown
            raise SystemExit(0) from None
        raise
