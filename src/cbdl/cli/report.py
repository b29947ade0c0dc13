"""`cbdl report`: one HTML file about a saved model on a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cbdl.cli.options import Alpha, Delimiter, Encoding, Json, Model, Table, dialect_of
from cbdl.cli.reporting import note, print_json, reported
from cbdl.cli.settings import SETTINGS
from cbdl.tables.errors import UsageError

app = typer.Typer(**SETTINGS)

SUFFIXES = (".html", ".htm")
"""Of names of reports."""


@app.command(epilog="\b\nExample:\n  cbdl report model data.csv --out report.html")
def report(
    model: Model,
    table: Table,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("report.html"),
    alpha: Alpha = 0.05,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1, help="Rows to look at, at most, chosen at random. [default: 2000 of classes, 500]"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    as_json: Json = False,
) -> None:
    """Write a report about a model: one HTML file.

    It needs nothing else. What was trained, with diagnostics; scores beside baselines if the table has outcomes;
    figures; the rows of which the model is most uncertain, and which columns make it so; how to reproduce it.
    """
    from cbdl.report import write
    from cbdl.report.tabular import report as page_of
    from cbdl.tables import writing

    with reported(lambda: "No report was written."):
        if out.is_dir():
            raise UsageError(f"--out is {out}, which is a folder; give a file, as in report.html")
        if out.suffix.lower() not in SUFFIXES:
            raise UsageError(
                f"--out is {out}, but the report is HTML; let its name end in .html (a browser can print it as PDF)"
            )
        writing.check_place(out, out.parent)
        page, numbers = page_of(
            model, table, alpha=alpha, rows=rows, seed=seed, dialect=dialect_of(delimiter, encoding)
        )
        write(page, out)
        note(f"Report: {out}")
        if as_json:
            print_json({"report": str(out), **numbers})
