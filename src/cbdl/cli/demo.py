"""`cbdl demo`: the point in about a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cbdl.cli.options import Json
from cbdl.cli.settings import SETTINGS
from cbdl.cli.study import run_study

app = typer.Typer(**SETTINGS)


@app.command(epilog="\b\nExample:\n  cbdl demo --out demo-report")
def demo(
    out: Annotated[Path, typer.Option(help="The folder for the report.")] = Path("demo-report"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Only the paper's example: instant, no report.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Show the point in about a minute.

    Networks that know what they were never taught, on data that comes with scikit-learn: the paper's example of a
    credal set; handwritten digits, clean, spoiled, and images of other things; the diabetes data, inside and outside
    of the range of training. Tables in the terminal, and a report with figures in a folder.
    """
    run_study("demo", "smoke" if quick else "cpu", None if quick else out, seed, as_json)
