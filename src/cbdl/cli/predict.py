"""`cbdl predict`: answers for every row of a table, or of many."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cbdl.cli import start
from cbdl.cli.options import (
    FORMATS,
    MISSINGS,
    Alpha,
    Completions,
    Decision,
    Delimiter,
    Encoding,
    FormatName,
    Missing,
    MissingName,
    Model,
    Phi,
    PlaceName,
    Predictive,
    PredictiveName,
    Region,
    RegionName,
    Samples,
    Unknown,
    UnknownName,
    dialect_of,
    kind_of,
    samples_of,
)
from cbdl.cli.reporting import note, print_json, reported
from cbdl.cli.settings import SETTINGS
from cbdl.tables.errors import TableError, UsageError, many

if TYPE_CHECKING:
    from cbdl.tables import writing
    from cbdl.tables.answering import Request

app = typer.Typer(**SETTINGS)


EXAMPLES = """\b
Example:
  cbdl predict model new.csv --alpha 0.05 --phi 1.0 --out pred.csv
  cbdl predict model 'folder/*.parquet' --out answers --engine ray
"""


@app.command(epilog=EXAMPLES)
def predict(
    model: Model,
    table: Annotated[
        list[str],
        typer.Argument(
            help="CSV or Parquet; the first line names the columns. Several of them, a folder or a quoted pattern: "
            "answered file by file."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write here, as .csv, .jsonl or .parquet, instead of to stdout; for several tables, a folder."
        ),
    ] = None,
    alpha: Alpha = 0.05,
    phi: Phi = None,
    decision: Decision = None,
    region: Region = RegionName.calibrated,
    unknown: Unknown = UnknownName.hull,
    missing: Missing = MissingName.auto,
    completions: Completions = None,
    samples: Samples = None,
    predictive: Predictive = PredictiveName.mixture,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column to copy to the answers; once for each."),
    ] = None,
    digits: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=17,
            help="Digits of all numbers; ends of intervals are rounded outwards. [default: ends as the data can mean "
            "them, 9 for the rest; Parquet has all]",
        ),
    ] = None,
    floor: Annotated[
        bool,
        typer.Option(
            "--floor",
            "--noise",
            help="Also of mixtures the epistemic uncertainty that Monte Carlo noise alone would show.",
        ),
    ] = False,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    form: Annotated[
        FormatName | None,
        typer.Option(
            "--format", help="Several tables: the form of all answers. [default: that of each table]"
        ),
    ] = None,
    engine: Annotated[
        PlaceName,
        typer.Option(help="Several tables: answered here, or by a Ray cluster that sees the same files."),
    ] = PlaceName.local,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a row; with --out, a summary in JSON.")
    ] = False,
) -> None:
    """Answer for every row of a table, or of many.

    The decision, the region, and how much is noise (aleatoric) and how much ignorance (epistemic), in nats. A missing
    value or a word that was never seen is ignorance too: the answer is the hull over all that it could be. Files may
    be larger than memory. With --out, a new file appears when it is whole. Of several tables the same command, called
    again, answers those that are missing.
    """
    with start.imports():
        from cbdl.tables import answers, folders
        from cbdl.tables.answering import Request

    several = folders.is_many(table)
    with reported(lambda: _left(out, several)):
        options = answers.Options(
            alpha,
            kind_of(region),
            samples_of(samples),
            predictive.value,
            phi,
            floor=floor,
            keep=tuple(keep or ()),
            decision=None if decision is None else decision.value,
            unknown=unknown.value,
            missing=MISSINGS[missing],
            most=completions,
        )
        request = Request(options, dialect_of(delimiter, encoding), digits)
        if several:
            _many(model, table, out, request, FORMATS[form], engine, quiet=quiet, as_json=as_json)
            return
        if form is not None or engine is not PlaceName.local:
            what = "--engine ray is for several tables" if form is None else "--format is for several tables"
            remedy = "leave it out" if form is None else "the end of --out says the form"
            raise UsageError(f"{what}; {table[0]} is one: {remedy}")
        _one(model, Path(table[0]), out, request, as_json=as_json)


def _left(out: Path | None, several: bool) -> str:
    """What a run that is stopped leaves, in words."""
    if out is None:
        return "The answers so far are above."
    if several:
        return f"The files so far are in {out}; the same command goes on with the others."
    return "Nothing was written."


def _one(model: Path, table: Path, out: Path | None, request: Request, *, as_json: bool) -> None:
    with start.imports():
        from cbdl.tables import answers, writing
        from cbdl.tables.answering import Tally, answer_file, answered

    if out is not None:
        _check_output(out, table)
    start.no_frames()
    trained = answers.Trained.load(model)
    most = request.options.completions(trained.target)
    if out is None:
        tally = Tally()
        parts = answered(trained, table, request, tally)
        writing.write_text(parts, sys.stdout, "jsonl" if as_json else "csv")
        sys.stdout.flush()
        if tally.counts.gaps or tally.counts.imputed:
            note(tally.counts.said(request.options, most))
        return
    counts = answer_file(trained, table, out, request)
    if as_json:
        print_json({"out": str(out), **counts.shown(request.options)})
    else:
        typer.echo(f"{out}: {counts.said(request.options, most)}")


def _many(
    model: Path,
    given: list[str],
    out: Path | None,
    request: Request,
    kind: writing.Kind | None,
    engine: PlaceName,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    from cbdl.cli.files_shown import shown_files
    from cbdl.engines.pools import Actors, Here
    from cbdl.tables import answers, folders
    from cbdl.tables.answering import Counts

    if out is None:
        raise UsageError("several tables are answered into a folder; name it with --out")
    folders.check_folder(out)
    todo = folders.jobs(folders.tables(given), out, kind)
    most = request.options.completions(answers.target_of(answers.of_table(model)))
    pool = Here() if engine is PlaceName.local else Actors()
    outcomes = []
    with shown_files(len(todo), quiet=quiet) as shown:
        for outcome in folders.answer(model, todo, out, request, pool, kind=kind):
            outcomes.append(outcome)
            shown.add(outcome)
    whole = sum((o.counts for o in outcomes if o.counts is not None), Counts())
    failed = {str(o.job.table): o.error for o in outcomes if o.counts is None}
    before = sum(o.before for o in outcomes)
    if as_json:
        files = {"files": len(todo), "before": before, "failed": failed}
        print_json({"out": str(out), **files, **whole.shown(request.options)})
    else:
        typer.echo(_summary(out, len(todo) - len(failed), before, whole.said(request.options, most)))
    if failed:
        raise TableError(
            f"{len(failed)} of {many(len(todo), 'table')} could not be answered:\n"
            + "\n".join(failed.values())
            + "\nMend them, and call the same command again: it answers what is missing."
        )


def _summary(out: Path, files: int, before: int, rows: str) -> str:
    there = f" ({before} of them there already)" if before else ""
    return f"{out}: {many(files, 'file')}{there}, {rows}"


def _check_output(out: Path, table: Path) -> None:
    from cbdl.tables import writing

    writing.kind_of(out)
    if not out.parent.is_dir():
        raise UsageError(f"--out is {out}, but there is no folder {out.parent}")
    if out.is_dir():
        raise UsageError(f"--out is {out}, which is a folder")
    if out.exists() and table.exists() and out.samefile(table):
        raise UsageError(f"--out is {out}, the table itself; choose another name")
    writing.check_place(out, out.parent)
