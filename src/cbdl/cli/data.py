"""`cbdl data`: which data sets there are, and their download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cbdl.cli.options import Json
from cbdl.cli.reporting import fail, note, print_json
from cbdl.cli.settings import SETTINGS

app = typer.Typer(
    help="Data sets of images: list them, download them.",
    epilog="\b\nExample:\n  cbdl data list && cbdl data fetch mnist",
    no_args_is_help=True,
    **SETTINGS,
)

Where = Annotated[
    Path | None,
    typer.Option("--folder", help="Where data sets are. [default: CBDL_DATA, or the user's cache]"),
]


@app.command("list", epilog="\b\nExample:\n  cbdl data list")
def list_(where: Where = None, as_json: Json = False) -> None:
    """Say which data sets there are and whether they are in the folder."""
    from cbdl.data.catalogue import CATALOGUE
    from cbdl.data.fetch import files_there, folder, is_there

    rows = [
        {
            "name": one.name,
            "here": is_there(one, where),
            "files": list(files_there(one, where)),
            "about": one.about,
            "licence": one.licence,
        }
        for one in CATALOGUE.values()
    ]
    if as_json:
        print_json({"folder": str(folder(where)), "data": rows})
        return
    typer.echo(f"in {folder(where)}:")
    for row in rows:
        part = "here" if row["here"] else "part" if row["files"] else "-"
        typer.echo(f"{row['name']:<14} {part:<5} {row['about']} ({row['licence']})")


@app.command("fetch", epilog="\b\nExample:\n  cbdl data fetch mnist")
def fetch_(
    name: Annotated[str, typer.Argument(help="One of those that cbdl data list names.")],
    where: Where = None,
    as_json: Json = False,
) -> None:
    """Download a data set from its public home, with checksums.

    A transfer that broke off goes on where it stopped; call again. What is there already stays; if its sum is not the
    published one, that is said.
    """
    from cbdl.cli.bytes_shown import shown_bytes
    from cbdl.data.catalogue import data_set
    from cbdl.data.fetch import fetch
    from cbdl.data.formats import DataError

    try:
        one = data_set(name)
    except ValueError as error:
        fail(str(error), 2)
    try:
        with shown_bytes() as seen:
            place = fetch(one, where, note, seen=seen)
    except (OSError, DataError) as error:
        fail(str(error), 1)
    except KeyboardInterrupt:
        fail("Stopped. What was fetched is kept; call again to go on.", 130)
    names = sorted(path.name for path in place.iterdir())
    if as_json:
        print_json({"folder": str(place), "files": names})
    else:
        typer.echo(place)
