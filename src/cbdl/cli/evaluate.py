"""`cbdl evaluate`: scores on a table with outcomes."""

from __future__ import annotations

import typer

from cbdl.cli import start
from cbdl.cli.options import (
    MISSINGS,
    Alpha,
    Completions,
    Decision,
    Delimiter,
    Encoding,
    Json,
    Missing,
    MissingName,
    Model,
    Phi,
    Predictive,
    PredictiveName,
    Region,
    RegionName,
    Samples,
    Table,
    Unknown,
    UnknownName,
    dialect_of,
    kind_of,
    samples_of,
)
from cbdl.cli.reporting import print_json, reported
from cbdl.cli.settings import SETTINGS

app = typer.Typer(**SETTINGS)


@app.command(epilog="\b\nExample:\n  cbdl evaluate model test.csv --alpha 0.1")
def evaluate(
    model: Model,
    table: Table,
    alpha: Alpha = 0.05,
    phi: Phi = None,
    decision: Decision = None,
    region: Region = RegionName.calibrated,
    unknown: Unknown = UnknownName.hull,
    missing: Missing = MissingName.auto,
    completions: Completions = None,
    samples: Samples = None,
    predictive: Predictive = PredictiveName.mixture,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    as_json: Json = False,
) -> None:
    """Score a model on a table with outcomes.

    Is the decision right, and does the region cover the outcome?
    """
    with start.imports():
        from cbdl.cli import show
        from cbdl.tables import scoring
        from cbdl.tables.answers import Options, Trained

    with reported(lambda: "Run it again to start from the beginning."):
        options = Options(
            alpha,
            kind_of(region),
            samples_of(samples),
            predictive.value,
            phi,
            decision=None if decision is None else decision.value,
            unknown=unknown.value,
            missing=MISSINGS[missing],
            most=completions,
        )
        scores = scoring.evaluate(Trained.load(model), table, options, dialect_of(delimiter, encoding))
        if as_json:
            print_json(scores)
        else:
            show.scores(scores)
