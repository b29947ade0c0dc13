"""The command line. Results go to stdout, everything else to stderr; 0 success, 1 failure, 2 usage error."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cbdl import __version__, files, recipe
from cbdl.cli import show
from cbdl.cli.data import data
from cbdl.cli.options import (
    CALIBRATIONS,
    ENGINES,
    Alpha,
    CalibrationName,
    EngineName,
    Json,
    Model,
    Phi,
    Predictive,
    PredictiveName,
    ProfileName,
    Region,
    RegionName,
    Samples,
    Table,
    TaskName,
    kind_of,
    positive,
    samples_of,
)
from cbdl.cli.reporting import note, print_json, reported
from cbdl.cli.spelling import parse_net, parse_prior
from cbdl.tables import answers, learning
from cbdl.tables.files import UsageError, write_rows

if TYPE_CHECKING:
    from cbdl.studies.study import Profile

app = typer.Typer(
    help="Credal Bayesian Deep Learning: say how much is noise, how much is ignorance, and decide safely.",
    epilog="\b\nExample:\n  cbdl fit data.csv --target y --out model && cbdl predict model new.csv",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.add_typer(data, name="data")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cbdl {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


# --- the commands -------------------------------------------------------------------------------------------


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
            "cauchy:LOC:SCALE, horseshoe:SCALE. [default: Normals, scales 1, 2, 4, 8 over the root of the fan-in]",
        ),
    ] = None,
    net: Annotated[
        list[str] | None,
        typer.Option(metavar="NET", help="Once for each network, by its hidden layers. [default: mlp:16,16]"),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column to leave out; once for each.")
    ] = None,
    impute: Annotated[
        bool, typer.Option("--impute", help="Fill missing values with the median or the most frequent value.")
    ] = False,
    steps: Annotated[int, typer.Option(min=60, help="Length of the training.")] = recipe.STEPS,
    plausible: Annotated[
        float,
        typer.Option(min=0, max=1, help="Leave out members less plausible than this; 0: keep them all."),
    ] = recipe.PLAUSIBLE,
    calibration: Annotated[
        CalibrationName,
        typer.Option(help="How the level of calibrated regions is found, from training rows alone."),
    ] = CalibrationName.auto,
    temperature: Annotated[
        float, typer.Option(callback=positive, help="Weight of the prior; 1 is Bayes' rule.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    held_out: Annotated[
        float, typer.Option(min=0, max=0.9, help="Share of the rows kept for the scores, not trained on.")
    ] = 0.2,
    engine: Annotated[EngineName, typer.Option(help="Where to train.")] = EngineName.local,
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
    with reported(lambda: _how_to_go_on(out)):
        settings = learning.Settings(
            target,
            task.value,
            tuple(parse_prior(p) for p in prior) if prior else learning.Settings.priors,
            tuple(parse_net(n) for n in net) if net else learning.Settings.nets,
            tuple(drop or ()),
            impute,
            steps,
            plausible,
            CALIBRATIONS[calibration],
            temperature,
            seed,
            held_out,
        )
        if resume and not learning.run_folder(out).exists():
            note(f"There is no run to resume ({learning.run_folder(out)}); starting.")
        summary = learning.fit(
            table,
            out,
            settings,
            engine=ENGINES[engine](),
            resume=resume,
            overwrite=overwrite,
            verbose=not quiet,
        )
    if as_json:
        print_json(summary)
    else:
        show.fit(summary, chosen=task is TaskName.auto)


def _how_to_go_on(out: Path) -> str:
    run = learning.run_folder(out)
    if not run.exists():
        return "Nothing was written."
    arguments = [a for a in sys.argv[1:] if a != "--resume"]
    return f"The run is kept in {run}. To go on:\n  {shlex.join(['cbdl', *arguments, '--resume'])}"


@app.command(epilog="\b\nExample:\n  cbdl predict model new.csv --alpha 0.05 --phi 1.0 --out pred.csv")
def predict(
    model: Model,
    table: Table,
    out: Annotated[
        Path | None, typer.Option(help="Write here, as .csv or .jsonl, instead of to stdout.")
    ] = None,
    alpha: Alpha = 0.05,
    phi: Phi = None,
    region: Region = RegionName.calibrated,
    samples: Samples = str(recipe.DRAWS),
    predictive: Predictive = PredictiveName.mixture,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column to copy to the answers; once for each."),
    ] = None,
    floor: Annotated[
        bool,
        typer.Option(
            "--floor",
            "--noise",
            help="Add the epistemic uncertainty that Monte Carlo noise alone would show.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a row; with --out, a summary in JSON.")
    ] = False,
) -> None:
    """Answer for every row of a table.

    The decision, the region, and how much is noise (aleatoric) and how much ignorance (epistemic), in nats. The
    file may be larger than memory. With --out, the new file appears when it is whole.
    """
    with reported(lambda: "Nothing was written." if out else "The answers so far are above."):
        options = answers.Options(
            alpha, kind_of(region), samples_of(samples), predictive.value, phi, floor, tuple(keep or ())
        )
        if out is not None:
            _check_output(out, table)
        rows = answers.predict(answers.Trained.load(model), table, options)
        if out is None:
            write_rows(rows, sys.stdout, "jsonl" if as_json else "csv")
            return
        abstained: Counter[bool] = Counter()
        with files.whole(out) as file:
            watched = _watched(rows, abstained)
            count = write_rows(watched, file, "csv" if out.suffix.lower() == ".csv" else "jsonl")
    if as_json:
        print_json({"out": str(out), "rows": count} | ({} if phi is None else {"abstained": abstained[True]}))
    else:
        typer.echo(f"{out}: {count} rows" + ("" if phi is None else f", {abstained[True]} abstained"))


def _watched(rows: Iterator[dict[str, Any]], abstained: Counter[bool]) -> Iterator[dict[str, Any]]:
    for row in rows:
        abstained[row.get("abstain", False)] += 1
        yield row


def _check_output(out: Path, table: Path) -> None:
    if out.suffix.lower() not in (".csv", ".jsonl"):
        raise UsageError(f"--out is {out}; its name must end in .csv or .jsonl")
    if not out.parent.is_dir():
        raise UsageError(f"--out is {out}, but there is no folder {out.parent}")
    if out.is_dir():
        raise UsageError(f"--out is {out}, which is a folder")
    if out.exists() and table.exists() and out.samefile(table):
        raise UsageError(f"--out is {out}, the table itself; choose another name")


@app.command(epilog="\b\nExample:\n  cbdl evaluate model test.csv --alpha 0.1")
def evaluate(
    model: Model,
    table: Table,
    alpha: Alpha = 0.05,
    phi: Phi = None,
    region: Region = RegionName.calibrated,
    samples: Samples = str(recipe.DRAWS),
    predictive: Predictive = PredictiveName.mixture,
    as_json: Json = False,
) -> None:
    """Score a model on a table with outcomes.

    Is the decision right, and does the region cover the outcome?
    """
    with reported(lambda: "Run it again to start from the beginning."):
        options = answers.Options(alpha, kind_of(region), samples_of(samples), predictive.value, phi)
        scores = answers.evaluate(answers.Trained.load(model), table, options)
    if as_json:
        print_json(scores)
    else:
        show.scores(scores)


@app.command(epilog="\b\nExample:\n  cbdl info model")
def info(model: Model, as_json: Json = False) -> None:
    """Say what a saved model is.

    Its task, columns, priors, networks and scores; its files are checked on the way.
    """
    with reported(lambda: "Nothing was changed."):
        summary = answers.info(model)
    if as_json:
        print_json(summary)
    else:
        show.info(summary)


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
    _run_study("demo", "smoke" if quick else "cpu", None if quick else out, seed, as_json)


@app.command(epilog="\b\nExample:\n  cbdl study demo --profile smoke --out results")
def study(
    name: Annotated[str, typer.Argument(help="Which one: demo, methods or tables.")],
    profile: Annotated[
        ProfileName, typer.Option(help="smoke: under a minute; cpu: two cores; paper: its own settings.")
    ] = ProfileName.cpu,
    out: Annotated[
        Path | None, typer.Option(help="The folder for the report. [default: results/NAME]")
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    only: Annotated[
        str | None, typer.Option(help="Names with commas between them: only these of the study's tables.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a study and write its report.

    Tables in the terminal; in the folder a page, the tables as Markdown and CSV, the figures, and all numbers as JSON.
    """
    chosen = [] if only is None else [one.strip() for one in only.split(",") if one.strip()]
    _run_study(name, profile.value, out or Path("results") / name, seed, as_json, chosen)


def _run_study(
    name: str, profile: Profile, out: Path | None, seed: int, as_json: bool, only: Sequence[str] = ()
) -> None:
    from cbdl.studies.study import find, run

    with reported(lambda: "No report was written."):
        quiet = (lambda part: None) if as_json else show.part
        numbers = run(find(name), profile, out, seed, note, quiet, only)
    if as_json:
        print_json(numbers)


def _show_warning(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
    note(f"Warning: {message}")


def main() -> None:
    warnings.showwarning = _show_warning
    app()
