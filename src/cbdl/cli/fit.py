"""`cbdl fit`: from a table to a model."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from cbdl.cli import start
from cbdl.cli.options import (
    CALIBRATIONS,
    DECIMALS,
    CalibrationName,
    DecimalName,
    Delimiter,
    Encoding,
    EngineName,
    Json,
    Table,
    TaskName,
    dialect_of,
    engine_of,
    positive,
)
from cbdl.cli.reporting import note, print_json, reported
from cbdl.cli.settings import SETTINGS

app = typer.Typer(**SETTINGS)


@app.command(
    epilog="\b\nExample:\n  cbdl fit data.csv --target y --out model --prior normal:0:1 --net mlp:64,64"
)
def fit(
    table: Table,
    target: Annotated[str, typer.Option(metavar="COLUMN", help="The column to predict.")],
    out: Annotated[Path, typer.Option(help="The folder to write the model to.")],
    task: Annotated[
        TaskName, typer.Option(help="auto: text and few whole numbers are classes.")
    ] = TaskName.auto,
    prior: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PRIOR",
            help="Once for each prior: normal:LOC:SCALE, laplace:LOC:SCALE, student-t:DF:LOC:SCALE, "
            "cauchy:LOC:SCALE, horseshoe:SCALE. [default: Student's t of 4 degrees of freedom, scales "
            "1, 2, 4 over the root of the fan-in]",
        ),
    ] = None,
    net: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NET",
            help="Once for each network, by its hidden layers. [default: mlp:16,16; a third layer from 500 rows on; "
            "for numbers a fourth above 1000]",
        ),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column to leave out; once for each.")
    ] = None,
    use: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="A column to use though it looks like an identifier; once for each."
        ),
    ] = None,
    date: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="A column of dates, whose parts are used; once for each. COLUMN:%d.%m.%Y says how they are written.",
        ),
    ] = None,
    impute: Annotated[
        bool, typer.Option("--impute", help="Fill missing values with the median or the most frequent value.")
    ] = False,
    steps: Annotated[
        int | None,
        typer.Option(
            min=60, help="Length of the training; 5000 to 36000 by the task and the number of rows."
        ),
    ] = None,
    plausible: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Leave out members less plausible than this; 0: keep them all. [default: 0.3]"
        ),
    ] = None,
    calibration: Annotated[
        CalibrationName,
        typer.Option(help="How the level of calibrated regions is found, from training rows alone."),
    ] = CalibrationName.auto,
    temperature: Annotated[
        float, typer.Option(callback=positive, help="Weight of the prior; 1 is Bayes' rule.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Fixes the rows that are held out, and the model.")] = 0,
    held_out: Annotated[
        float, typer.Option(min=0, max=0.9, help="Share of the rows kept for the scores, not trained on.")
    ] = 0.2,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Annotated[
        DecimalName, typer.Option(help="The decimal sign; auto: told by each column, if it can be.")
    ] = DecimalName.auto,
    engine: Annotated[
        EngineName, typer.Option(help="Where to train; auto: here, or one process per core.")
    ] = EngineName.auto,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the model that is in --out.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: Json = False,
) -> None:
    """Train a credal set of Bayesian networks on a table.

    Every pair of a prior and a network is trained; the model keeps those that the data do not refute, and the level
    that regions need to cover new outcomes. A run that is stopped can go on with --resume.
    """
    with start.imports():
        from cbdl import recipe
        from cbdl.cli import show
        from cbdl.cli.spelling import parse_net, parse_prior
        from cbdl.tables import learning
        from cbdl.tables.columns import Wishes

    with reported(lambda: _how_to_go_on(out)):
        wishes = Wishes(tuple(drop or ()), tuple(use or ()), tuple(date or ()), DECIMALS[decimal], impute)
        settings = learning.Settings(
            target,
            task.value,
            tuple(parse_prior(p) for p in prior) if prior else recipe.PRIORS,
            tuple(parse_net(n) for n in net) if net else None,
            wishes,
            steps,
            recipe.PLAUSIBLE if plausible is None else plausible,
            CALIBRATIONS[calibration],
            temperature,
            seed,
            held_out,
            dialect_of(delimiter, encoding),
        )
        if resume and not learning.run_folder(out).exists():
            note(f"There is no run to resume ({learning.run_folder(out)}); starting.")
        summary = learning.fit(
            table,
            out,
            settings,
            engine=engine_of(engine),
            resume=resume,
            overwrite=overwrite,
            verbose=not quiet,
        )
        if as_json:
            print_json(summary)
        else:
            show.fit(summary, chosen=task is TaskName.auto)


def _how_to_go_on(out: Path) -> str:
    from cbdl.tables import learning

    run = learning.run_folder(out)
    if not run.exists():
        return "Nothing was written."
    arguments = [a for a in sys.argv[1:] if a != "--resume"]
    return f"The run is kept in {run}. To go on:\n  {shlex.join(['cbdl', *arguments, '--resume'])}"
