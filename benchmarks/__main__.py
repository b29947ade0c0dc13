"""Run every `benchmarks/bench_*.py` (or those named on the command line) and print one table."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks._table import Row


def main(names: list[str]) -> int:
    found = [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name.startswith("bench_")]
    table = Table(title="cbdl against peers, one run")
    for column in ("what", "cbdl s", "peer", "peer s", "ratio", "promised", "note"):
        table.add_column(column, justify="right" if column in ("cbdl s", "peer s", "ratio") else "left")
    missed = 0
    for name in found:
        if names and name.removeprefix("bench_") not in names:
            continue
        rows: list[Row] = importlib.import_module(f"benchmarks.{name}").rows()
        for row in rows:
            kept = row.ratio >= row.target
            missed += not kept
            table.add_row(
                row.what,
                f"{row.seconds:.3f}",
                row.peer,
                f"{row.peer_seconds:.3f}",
                f"{row.ratio:.1f}",
                f">= {row.target:g} {'kept' if kept else 'MISSED'}",
                row.note,
            )
    Console(width=200).print(table)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
