"""`cbdl predict`: answers for every row of a table."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from cbdl import recipe
from cbdl.cli.options import (
    MISSINGS,
    Alpha,
    Completions,
    Decision,
    DecisionName,
    Delimiter,
    Encoding,
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
from cbdl.cli.reporting import note, print_json, reported
from cbdl.cli.settings import SETTINGS
from cbdl.tables import answers, writing
from cbdl.tables.errors import UsageError, many

app = typer.Typer(**SETTINGS)


@app.command(epilog="\b\nExample:\n  cbdl predict model new.csv --alpha 0.05 --phi 1.0 --out pred.csv")
def predict(
    model: Model,
    table: Table,
    out: Annotated[
        Path | None, typer.Option(help="Write here, as .csv, .jsonl or .parquet, instead of to stdout.")
    ] = None,
    alpha: Alpha = 0.05,
    phi: Phi = None,
    decision: Decision = DecisionName.maximin,
    region: Region = RegionName.calibrated,
    unknown: Unknown = UnknownName.hull,
    missing: Missing = MissingName.auto,
    completions: Completions = None,
    samples: Samples = str(recipe.DRAWS),
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
            help="Digits of all numbers. [default: ends of intervals as the data can mean them, 6 for the rest; "
            "Parquet has all]",
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
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a row; with --out, a summary in JSON.")
    ] = False,
) -> None:
    """Answer for every row of a table.

    The decision, the region, and how much is noise (aleatoric) and how much ignorance (epistemic), in nats. A missing
    value or a word that was never seen is ignorance too: the answer is the hull over all that it could be. The file may
    be larger than memory. With --out, the new file appears when it is whole.
    """
    with reported(lambda: "Nothing was written." if out else "The answers so far are above."):
        options = answers.Options(
            alpha,
            kind_of(region),
            samples_of(samples),
            predictive.value,
            phi,
            floor=floor,
            keep=tuple(keep or ()),
            decision=decision.value,
            unknown=unknown.value,
            missing=MISSINGS[missing],
            most=completions,
        )
        if out is not None:
            _check_output(out, table)
        trained = answers.Trained.load(model)
        tally = Tally(options.completions(trained))
        whole = out is not None and writing.kind_of(out) == "parquet" and digits is None
        decimals = trained.target.decimals
        parts = tally.watched(answers.predict(trained, table, options, dialect_of(delimiter, encoding)))
        if not whole:
            parts = (writing.rounded(part, digits, decimals) for part in parts)
        if out is None:
            writing.write_text(parts, sys.stdout, "jsonl" if as_json else "csv")
            sys.stdout.flush()
            if tally.gaps:
                note(tally.said(options))
            return
        writing.write(parts, out)
        if as_json:
            print_json({"out": str(out), **tally.counts(options)})
        else:
            typer.echo(f"{out}: {tally.said(options)}")


class Tally:
    """What passed by: rows, and how many of them are special."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.rows = self.unknown = self.missing = self.sampled = self.abstained = 0

    def watched(self, parts: Iterable[answers.Answers]) -> Iterator[answers.Answers]:
        for part in parts:
            self.rows += len(part.columns["row"])
            self.unknown += part.unknown
            self.missing += part.missing
            self.sampled += part.sampled
            self.abstained += part.abstained
            yield part

    @property
    def gaps(self) -> bool:
        return bool(self.unknown or self.missing)

    def counts(self, options: answers.Options) -> dict[str, int]:
        special = {"unknown": self.unknown, "missing": self.missing, "sampled": self.sampled}
        abstained = {} if options.phi is None else {"abstained": self.abstained}
        return {"rows": self.rows} | abstained | (special if self.gaps else {})

    def said(self, options: answers.Options) -> str:
        words = [many(self.rows, "row")]
        if options.phi is not None:
            words.append(f"{self.abstained} abstained")
        if self.unknown:
            words.append(f"{self.unknown} with words that were never seen")
        if self.missing:
            words.append(f"{self.missing} with missing values")
        if self.gaps:
            words.append(f"answered by the hull over up to {self.most} completions")
        if self.sampled:
            words.append(f"a sample of them in {many(self.sampled, 'row')}")
        return ", ".join(words)


def _check_output(out: Path, table: Path) -> None:
    writing.kind_of(out)
    if not out.parent.is_dir():
        raise UsageError(f"--out is {out}, but there is no folder {out.parent}")
    if out.is_dir():
        raise UsageError(f"--out is {out}, which is a folder")
    if out.exists() and table.exists() and out.samefile(table):
        raise UsageError(f"--out is {out}, the table itself; choose another name")
