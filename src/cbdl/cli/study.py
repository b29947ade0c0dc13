"""`cbdl study`: run a study and write its report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cbdl.cli.options import Json, ProfileName
from cbdl.cli.reporting import fail, note, print_json, reported
from cbdl.cli.settings import SETTINGS

if TYPE_CHECKING:
    from cbdl.studies.study import Profile

app = typer.Typer(**SETTINGS)


@app.command(epilog="\b\nExample:\n  cbdl study demo --profile smoke --out results")
def study(
    name: Annotated[
        str, typer.Argument(help="Which one: demo, images, methods, pancreas, racing or tables.")
    ],
    profile: Annotated[
        ProfileName, typer.Option(help="smoke: under a minute; cpu: two cores; paper: its own settings.")
    ] = ProfileName.cpu,
    out: Annotated[
        Path | None, typer.Option(help="The folder for the report. [default: results/NAME]")
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, help="Of images and racing: how many seeds, from --seed on. [default: as the profile]"
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Names with commas between them: only these of the study's tables or patients."),
    ] = None,
    track: Annotated[
        str | None,
        typer.Option(
            help="Of racing: a centre-line CSV file, its folder, a name in $CBDL_DATA/tracks, or embedded."
        ),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(
            help="Of images: the data set to train on, mnist, fashion, cifar or svhn; or all of them."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a study and write its report.

    Tables in the terminal; in the folder a page, the tables as Markdown and CSV, the figures, and all numbers as JSON.
    """
    if train is not None and name != "images":
        fail(f"--train is {train!r}, but {name} is not trained on a data set of images; leave it out", 2)
    some = [names for names in (only, None if train == "all" else train) if names is not None]
    chosen = [one.strip() for one in ",".join(some).split(",") if one.strip()]
    run_study(name, profile.value, out or Path("results") / name, seed, as_json, chosen, track, seeds)


def run_study(
    name: str,
    profile: Profile,
    out: Path | None,
    seed: int,
    as_json: bool,
    only: Sequence[str] = (),
    track: str | None = None,
    seeds: int | None = None,
) -> None:
    """Run it, show its parts as they come, and write its report if there is a folder for it."""
    from cbdl.cli import show
    from cbdl.studies.study import find, run

    with reported(lambda: "No report was written."):
        quiet = (lambda part: None) if as_json else show.part
        numbers = run(find(name), profile, out, seed, note, quiet, only, track, seeds)
        if as_json:
            print_json(numbers)
