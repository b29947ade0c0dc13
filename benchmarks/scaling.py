"""Seconds and memory of a default fit against rows, members and chains: `python -m benchmarks.scaling`.

Every fit is a process of its own, so that its memory is its own, with one thread. Ten features, Friedman's function.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass

FIT = """
import json, sys, time, warnings
from dataclasses import replace
import torch
from sklearn.datasets import make_friedman1
from cbdl import CredalRegressor, engines, priors, recipe
warnings.simplefilter("ignore")
torch.set_num_threads(1)
own = json.loads(sys.argv[1])
X, y = make_friedman1(own["rows"] or 50, 10, noise=1.0, random_state=0)
method = replace(recipe.method(recipe.steps(own["rows"], "regression"), "regression"), chains=own["chains"])
scales = [1.0, 2.0, 4.0, 0.5, 8.0, 3.0][: own["members"] // 2]
grid = [priors.Normal(0.0, scale, fan_in=True) for scale in scales]
start = time.perf_counter()
model = CredalRegressor(grid, method=method, engine=engines.Local(), random_state=0)
if own["rows"]:
    model.fit(X, y)
seconds = time.perf_counter() - start
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
print(json.dumps({"seconds": seconds, "peak": peak}))
"""


@dataclass(frozen=True)
class Case:
    rows: int
    members: int = 6
    chains: int = 4


CASES = (
    *(Case(rows) for rows in (100, 300, 900, 2000, 4000, 10_000, 50_000)),
    *(Case(900, members) for members in (2, 12)),
    *(Case(900, chains=chains) for chains in (1, 8, 16)),
)


def main() -> None:
    """Prints a table in Markdown, a line as soon as it is there; memory without what importing takes."""
    idle = _measured(Case(0))["peak"]
    print("| rows | members | chains | seconds | memory, MB |\n| ---: | ---: | ---: | ---: | ---: |")
    for case in CASES:
        own = _measured(case)
        print(
            f"| {case.rows:,} | {case.members} | {case.chains} | {own['seconds']:.0f} | {own['peak'] - idle:.0f} |",
            flush=True,
        )


def _measured(case: Case) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", FIT, json.dumps(asdict(case))], check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
