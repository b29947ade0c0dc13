"""`cbdl serve`: a saved model as a service with a page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from cbdl.cli.options import Json, Model, positive
from cbdl.cli.reporting import note, print_json, reported
from cbdl.cli.settings import SETTINGS
from cbdl.tables.errors import UsageError

app = typer.Typer(**SETTINGS)

TOKEN = "CBDL_TOKEN"
"""The environment variable that holds the token; on the command line every user of the machine could read it."""
EXAMPLES = """\b
Example:
  cbdl serve model --port 8000
  curl -H 'Content-Type: application/json' http://127.0.0.1:8000/v1/predict \\
       -d '{"rows": [{"x": 1.5, "colour": null}]}'
"""


@app.command(epilog=EXAMPLES)
def serve(
    model: Model,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help=f"A file with the token that clients must send. [default: the variable {TOKEN}, or no token]"
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Listen at a public address without a token all the same.")
    ] = False,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of a request, at most.")] = 4 << 20,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows of a request, at most.")] = 1000,
    max_draws: Annotated[int, typer.Option(min=1, help="Draws that a request may ask for.")] = 512,
    max_waiting: Annotated[
        int,
        typer.Option(min=1, help="Rows that may wait for their turn; what comes then is sent away (429)."),
    ] = 4000,
    timeout: Annotated[float, typer.Option(callback=positive, help="Seconds for a request, at most.")] = 30.0,
    gather: Annotated[
        float,
        typer.Option(min=0, help="Milliseconds that a request waits for others, to be answered together."),
    ] = 2.0,
    as_json: Json = False,
) -> None:
    """Serve a model over HTTP, with a page to try it.

    The page is at /, the description at /docs. The address is printed when requests are answered. On Ctrl-C or SIGTERM
    those under way are finished first.
    """
    with reported(lambda: "The service has ended."):
        token = _token(token_file)
        try:
            from cbdl.serve import Limits, application, run
            from cbdl.serve.images import load_served
            from cbdl.serve.server import PATIENCE, is_private
        except ImportError as error:
            raise ImportError(f'{error.name} is not installed; pip install "cbdl[serve]"') from None
        if token is None and not force and not is_private(host):
            raise UsageError(
                f"--host {host} can be reached from other machines, and there is no token: set {TOKEN} or "
                "--token-file, or say --force"
            )
        limits = Limits(max_body, max_rows, max_draws, timeout, max(max_waiting, max_rows), gather / 1000)
        service = application(load_served(model), limits, token)

        def started(url: str) -> None:
            if as_json:
                print_json({"url": url, "pid": os.getpid()})
            else:
                typer.echo(url)
                note("Page: /   Description: /docs   Stop: Ctrl-C")

        run(service, host, port, patience=timeout + PATIENCE, started=started)


def _token(file: Path | None) -> str | None:
    """The token, from a file or from the environment; None if there is none."""
    if file is None:
        found, where = os.environ.get(TOKEN), TOKEN
    else:
        if not file.is_file():
            raise UsageError(f"--token-file is {file}, which is not a file")
        found, where = file.read_text(), str(file)
    if found is None:
        return None
    token = found.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"the token in {where} must be a word of printable ASCII characters, without spaces")
    return token
