"""`cbdl info`: what a saved model is."""

from __future__ import annotations

import typer

from cbdl.cli import start
from cbdl.cli.options import Json, Model
from cbdl.cli.reporting import print_json, reported
from cbdl.cli.settings import SETTINGS

app = typer.Typer(**SETTINGS)


@app.command(epilog="\b\nExample:\n  cbdl info model")
def info(model: Model, as_json: Json = False) -> None:
    """Say what a saved model is.

    Its task, columns, priors, networks and scores; its files are checked on the way.
    """
    with start.imports():
        from cbdl.cli import show
        from cbdl.tables import scoring

    with reported(lambda: "Nothing was changed."):
        summary = scoring.info(model)
        if as_json:
            print_json(summary)
        else:
            show.info(summary)
