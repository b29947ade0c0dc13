"""The options that commands share: which values they take, what they say in --help, and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from cbdl.engines import Engine, Local, Processes, Ray
from cbdl.left_out import How
from cbdl.tables.files import UsageError


class TaskName(StrEnum):
    auto = "auto"
    classification = "classification"
    regression = "regression"


class EngineName(StrEnum):
    local = "local"
    processes = "processes"
    ray = "ray"


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


CALIBRATIONS: dict[CalibrationName, How | None] = {
    CalibrationName.auto: "auto",
    CalibrationName.weights: "weights",
    CalibrationName.folds: "folds",
    CalibrationName.none: None,
}
ENGINES: dict[EngineName, Callable[[], Engine]] = {
    EngineName.local: Local,
    EngineName.processes: Processes,
    EngineName.ray: Ray,
}


def _between(least: float, most: float, what: str) -> Callable[[float | None], float | None]:
    def check(value: float | None) -> float | None:
        if value is not None and not least < value < most:
            raise typer.BadParameter(f"{value:g} is not {what}")
        return value

    return check


def kind_of(region: RegionName) -> str | None:
    """The region of a credal set that is meant; None: the calibrated one."""
    return None if region is RegionName.calibrated else region.value


def samples_of(text: str) -> int | Literal["auto"]:
    """What --samples says."""
    if text == "auto":
        return "auto"
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f'--samples is {text!r}; give a whole number of at least 1, or "auto"')
    return int(text)


share = _between(0, 1, "strictly between 0 and 1")
positive = _between(0, float("inf"), "a positive number")

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Alpha = Annotated[float, typer.Option(callback=share, help="The region covers with probability 1 - alpha.")]
Phi = Annotated[
    float | None, typer.Option(help="Abstain where the aleatoric uncertainty (nats) is above this.")
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
    str,
    typer.Option(
        help="Draws of the parameters (for classes, from every chain), "
        'or "auto": until Monte Carlo noise is below 0.01 nats.'
    ),
]
Predictive = Annotated[PredictiveName, typer.Option(help="Regression: mixture is exact, normal is faster.")]
Model = Annotated[Path, typer.Argument(help="A folder that cbdl fit wrote.")]
Table = Annotated[Path, typer.Argument(help="CSV or Parquet; the first line names the columns.")]
