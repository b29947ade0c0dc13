"""The command line. Results go to stdout, everything else to stderr; 0 success, 1 failure, 2 usage error."""

from __future__ import annotations

import json
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from cbdl import CategoricalCredalSet, __version__

app = typer.Typer(
    help="Credal Bayesian Deep Learning: say how much is noise, how much is ignorance, and decide safely.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

FIVE_OUTCOMES = np.array(
    [
        [0.7, 0.25, 0.03, 0.01, 0.01],
        [0.6, 0.2, 0.1, 0.05, 0.05],
        [0.5, 0.3, 0.15, 0.025, 0.025],
    ]
)
"""The paper's example of a credal set: three distributions over five outcomes (its table "tab_ex")."""


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


def five_outcomes(alpha: float) -> dict[str, Any]:
    """Everything the kernel says about the paper's five-outcome example."""
    credal = CategoricalCredalSet(FIVE_OUTCOMES)
    split = credal.uncertainty()
    return {
        "alpha": alpha,
        "lower_probability": [float(credal.lower_probability(i)) for i in range(5)],
        "upper_probability": [float(credal.upper_probability(i)) for i in range(5)],
        "total": float(split.total),
        "aleatoric": float(split.aleatoric),
        "epistemic": float(split.epistemic),
        "epistemic_bracket": [float(split.epistemic_lower), float(split.epistemic_upper)],
        "gap": float(split.gap),
        "regions": {
            method: [int(i) + 1 for i in np.flatnonzero(credal.region(alpha, method).mask)]
            for method in ("union", "lower-density", "minimal")
        },
        "decision": int(credal.decide("maximin", single=True)) + 1,
    }


def _show(answer: dict[str, Any]) -> None:
    console = Console()
    table = Table(title="Three plausible distributions over five outcomes (the paper's example)")
    for column in ("outcome", "P1", "P2", "P3", "lower", "upper"):
        table.add_column(column, justify="right")
    for i in range(5):
        numbers = (*FIVE_OUTCOMES[:, i], answer["lower_probability"][i], answer["upper_probability"][i])
        table.add_row(str(i + 1), *(f"{x:.3f}" for x in numbers))
    console.print(table)
    low, high = answer["epistemic_bracket"]
    console.print(f"noise (aleatoric)      {answer['aleatoric']:.4f} nats")
    console.print(
        f"ignorance (epistemic)  {answer['epistemic']:.4f} nats, exact to {answer['gap']:.0e}; "
        f"the paper's bracket is {low:.4f} to {high:.4f}"
    )
    for method, outcomes in answer["regions"].items():
        inside = ", ".join(map(str, outcomes))
        console.print(f"{1 - answer['alpha']:.0%} region, {method:<14} {{{inside}}}", highlight=False)
    console.print(f"safest single outcome  {answer['decision']}")


@app.command(epilog="Example: cbdl demo --alpha 0.1")
def demo(
    alpha: Annotated[float, typer.Option(help="The region covers at least 1 - alpha.")] = 0.1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show what a credal set says, on the paper's own example."""
    if not 0 < alpha < 1:
        raise typer.BadParameter(f"{alpha:g} is not strictly between 0 and 1", param_hint="--alpha")
    answer = five_outcomes(alpha)
    if as_json:
        typer.echo(json.dumps(answer))
    else:
        _show(answer)


def main() -> None:
    app()
