"""The options that commands share: which values they take, what they say in --help, and what they mean.

Modules of the command line import nothing heavy: whoever asks for help, or mistypes, does not wait for torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cbdl.tables.errors import UsageError

if TYPE_CHECKING:
    from cbdl.engines import Engine
    from cbdl.steps.left_out import How
    from cbdl.tables.answers import Missing as MissingKind
    from cbdl.tables.cells import Decimal
    from cbdl.tables.files import Dialect
    from cbdl.tables.writing import Kind as AnswerKind


class TaskName(StrEnum):
    auto = "auto"
    classification = "classification"
    regression = "regression"


class EngineName(StrEnum):
    auto = "auto"
    local = "local"
    processes = "processes"
    ray = "ray"


class PlaceName(StrEnum):
    local = "local"
    ray = "ray"


class FormatName(StrEnum):
    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"


FORMATS: dict[FormatName | None, AnswerKind | None] = {
    None: None,
    FormatName.csv: "csv",
    FormatName.jsonl: "jsonl",
    FormatName.parquet: "parquet",
}


class RegionName(StrEnum):
    calibrated = "calibrated"
    union = "union"
    lower_density = "lower-density"
    minimal = "minimal"


class CalibrationName(StrEnum):
    auto = "auto"
    weights = "weights"
    folds = "folds"
    none = "none"


class ProfileName(StrEnum):
    smoke = "smoke"
    cpu = "cpu"
    paper = "paper"


class PredictiveName(StrEnum):
    mixture = "mixture"
    normal = "normal"


class DecisionName(StrEnum):
    maximin = "maximin"
    mean = "mean"


class UnknownName(StrEnum):
    hull = "hull"
    error = "error"


class MissingName(StrEnum):
    auto = "auto"
    hull = "hull"
    impute = "impute"
    error = "error"


class DecimalName(StrEnum):
    auto = "auto"
    point = "."
    comma = ","


DECIMALS: dict[DecimalName, Decimal | None] = {
    DecimalName.auto: None,
    DecimalName.point: ".",
    DecimalName.comma: ",",
}
MISSINGS: dict[MissingName, MissingKind | None] = {
    MissingName.auto: None,
    MissingName.hull: "hull",
    MissingName.impute: "impute",
    MissingName.error: "error",
}
CALIBRATIONS: dict[CalibrationName, How | None] = {
    CalibrationName.auto: "auto",
    CalibrationName.weights: "weights",
    CalibrationName.folds: "folds",
    CalibrationName.none: None,
}


def engine_of(name: EngineName) -> Engine:
    """Where a model is to be trained."""
    from cbdl.engines import Auto, Local, Processes, Ray

    engines: dict[EngineName, Callable[[], Engine]] = {
        EngineName.auto: Auto,
        EngineName.local: Local,
        EngineName.processes: Processes,
        EngineName.ray: Ray,
    }
    return engines[name]()


def _between(least: float, most: float, what: str) -> Callable[[float | None], float | None]:
    def check(value: float | None) -> float | None:
        if value is not None and not least < value < most:
            raise typer.BadParameter(f"{value:g} is not {what}")
        return value

    return check


def kind_of(region: RegionName) -> str | None:
    """The region of a credal set that is meant; None: the calibrated one."""
    return None if region is RegionName.calibrated else region.value


def samples_of(text: str | None) -> int | Literal["auto"] | None:
    """What --samples says; None: nothing."""
    if text is None:
        return None
    if text == "auto":
        return "auto"
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f'--samples is {text!r}; give a whole number of at least 1, or "auto"')
    return int(text)


def dialect_of(delimiter: str | None, encoding: str | None) -> Dialect:
    """How a CSV file is written; a tab may be spelled."""
    from cbdl.tables.files import Dialect

    return Dialect({"tab": "\t", "\\t": "\t"}.get(delimiter or "", delimiter), encoding)


def _number(value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise typer.BadParameter(f"{value} is not a number")
    return value


share = _between(0, 1, "strictly between 0 and 1")
positive = _between(0, float("inf"), "a positive number")

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Alpha = Annotated[float, typer.Option(callback=share, help="The region covers with probability 1 - alpha.")]
Phi = Annotated[
    float | None,
    typer.Option(callback=_number, help="Abstain where the aleatoric uncertainty (nats) is above this."),
]
Region = Annotated[
    RegionName,
    typer.Option(
        "--method",
        help="Which region: calibrated covers a share of 1 - alpha of new outcomes; the others hold 1 - alpha under "
        "every distribution of the credal set, minimal is the smallest of them.",
    ),
]
Samples = Annotated[
    str | None,
    typer.Option(
        help="Draws of the parameters (for classes, from every chain), "
        'or "auto": until Monte Carlo noise is below 0.01 nats. [default: 400, or all that there are]'
    ),
]
Predictive = Annotated[PredictiveName, typer.Option(help="Regression: mixture is exact, normal is faster.")]
Model = Annotated[Path, typer.Argument(help="A folder that cbdl fit wrote.")]
Table = Annotated[Path, typer.Argument(help="CSV or Parquet; the first line names the columns.")]
Delimiter = Annotated[
    str | None,
    typer.Option(
        metavar="SIGN", help="What sets the values of a CSV file apart: a sign, or tab. [default: looked up]"
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The encoding of a CSV file, as in latin-1. [default: utf-8, or utf-16 if marked]",
    ),
]
Decision = Annotated[
    DecisionName | None,
    typer.Option(
        help="maximin: the best outcome in the worst case; mean: the likeliest class, or the mean. "
        "[default: maximin of classes, mean of numbers]"
    ),
]
Unknown = Annotated[
    UnknownName, typer.Option(help="A word that was never seen: the hull over all known ones, or an error.")
]
Missing = Annotated[
    MissingName,
    typer.Option(
        help="A missing value: the hull over all that it could be, filled in, or an error. auto: filled in if the "
        "model was trained with --impute, else the hull."
    ),
]
Completions = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="The hull over at most so many completions of a row; of more, a balanced sample. "
        "[default: 32 for classes, 8 for numbers]",
    ),
]
