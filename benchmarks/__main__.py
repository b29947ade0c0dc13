"""Run every `benchmarks/bench_*.py` (or those named on the command line) and print one table."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks._table import Row

COLUMNS = ("what", "cbdl s", "peer", "peer s", "ratio", "promised", "goal", "note")


def main(names: list[str]) -> int:
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
        goal = "" if row.goal is None else f">= {row.goal:.3g} {'reached' if row.reached else 'MISSED'}"
        promised = f">= {row.target:.3g} {'kept' if row.kept else 'BROKEN'}"
        seconds, peer_seconds = f"{row.seconds:.3f}", f"{row.peer_seconds:.3f}"
        table.add_row(row.what, seconds, row.peer, peer_seconds, f"{row.ratio:.3g}", promised, goal, row.note)
    console = Console(width=200)
    console.print(table)
    broken, missed = (sum(not x for x in xs) for xs in ([r.kept for r in rows], [r.reached for r in rows]))
    console.print(f"promises broken: {broken}; goals missed: {missed}")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
