"""Run every `benchmarks/bench_*.py` (or those named on the command line) and print one table.

`--markdown FILE` writes the same table for the documentation, with when, where and with which versions it was measured.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks._table import Row

COLUMNS = ("what", "cbdl s", "peer", "peer s", "ratio", "promised", "goal", "note")
PEERS = ("torch", "numpy", "scipy", "arviz", "bayesian-torch", "imagecorruptions", "laplace-torch")


def main(names: list[str], page: Path | None = None) -> int:
    """Prints the table; 1 if a promise is broken. Goals that are missed are printed and counted, not hidden."""
    modules = [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name.startswith("bench_")]
    rows: list[Row] = []
    for name in modules:
        if not names or name.removeprefix("bench_") in names:
            rows += importlib.import_module(f"benchmarks.{name}").rows()
    table = Table(title="cbdl against peers, one run")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in ("cbdl s", "peer s", "ratio") else "left")
    for row in rows:
        table.add_row(*cells(row))
    broken, missed = (sum(not x for x in xs) for xs in ([r.kept for r in rows], [r.reached for r in rows]))
    verdict = f"promises broken: {broken}; goals missed: {missed}"
    console = Console(width=200)
    console.print(table)
    console.print(verdict)
    if page is not None:
        page.write_text(markdown(rows, names, verdict))
    return int(broken > 0)


def cells(row: Row) -> tuple[str, ...]:
    """One line of the table."""
    goal = "" if row.goal is None else f">= {row.goal:.3g} {'reached' if row.reached else 'MISSED'}"
    promised = f">= {row.target:.3g} {'kept' if row.kept else 'BROKEN'}"
    seconds, peer_seconds = f"{row.seconds:.3f}", f"{row.peer_seconds:.3f}"
    ratio = f"{row.ratio:,.0f}" if row.ratio >= 100 else f"{row.ratio:.3g}"
    return row.what, seconds, row.peer, peer_seconds, ratio, promised, goal, row.note


def markdown(rows: list[Row], names: list[str], verdict: str) -> str:
    """The table for the documentation."""
    lines = [[cell.replace("|", "\\|") for cell in cells(row)] for row in rows]
    table = [f"| {' | '.join(line)} |" for line in (COLUMNS, ["---"] * len(COLUMNS), *lines)]
    made = " ".join(["python -m benchmarks", *names])
    where = f"{platform.machine()}, {os.cpu_count()} cores, threads of torch: {torch.get_num_threads()}"
    when = f"{datetime.now(UTC):%Y-%m-%d}, {where}; {', '.join(filter(None, map(_version, PEERS)))}"
    head = [
        "# Against peers, one run",
        "",
        f"`{made} --markdown FILE` writes this page.",
        "",
        "<!-- table -->",
    ]
    head += [f"Measured on {when}; {verdict}.", ""]
    return "\n".join([*head, *table]) + "\n"


def _version(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help='of benchmarks, such as "entropy"; none: all')
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    given = parser.parse_args()
    sys.exit(main(given.names, given.markdown))
