"""The kernel now against an earlier version of itself: `python -m benchmarks.versions [revision] [turns]`.

The revision (by default the last one before all work on R^d and on many classes) is checked out beside this one, and
both answer the questions of `bench_kernel` in R^d and over many classes, in turns, each time in a process of its own
with one thread. The best process time of all turns counts. The goals are those of the project: five times the speed in
R^d, twice and four times over many classes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIRST = "530561f"
WORK = """
import json, sys, time
import numpy as np, torch
from cbdl import CategoricalCredalSet, DiagonalNormalCredalSet
torch.set_num_threads(1)
rng = np.random.default_rng(0)
loc, scale = rng.normal(0, 0.3, (200, 4, 120)), rng.uniform(0.5, 1.5, (200, 4, 120))
logits = rng.normal(0, 2, (400, 1, 1000)) + rng.normal(0, 1, (400, 20, 1000))
p = np.exp(logits - logits.max(-1, keepdims=True))
p /= p.sum(-1, keepdims=True)
jobs = {
    "R^d: uncertainty": (200, lambda: DiagonalNormalCredalSet(loc, scale).uncertainty()),
    "R^d: box": (200, lambda: DiagonalNormalCredalSet(loc, scale).region(0.05, "box")),
    "R^d: union": (200, lambda: DiagonalNormalCredalSet(loc, scale).region(0.05)),
    "classes: uncertainty": (400, lambda: CategoricalCredalSet(p).uncertainty()),
    "classes: union": (400, lambda: CategoricalCredalSet(p).region(0.05)),
}
seconds = {}
for name, (sets, job) in jobs.items():
    times = []
    for _ in range(4):
        start = time.process_time()
        job()
        times.append(time.process_time() - start)
    seconds[name] = min(times[1:]) / sets
print(json.dumps(seconds))
"""
GOALS = {
    "R^d: uncertainty": 5,
    "R^d: box": 5,
    "R^d: union": 5,
    "classes: uncertainty": 2,
    "classes: union": 4,
}


def timed(source: Path) -> dict[str, float]:
    """Process seconds of a set, by what is asked."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", WORK], env=environment, capture_output=True, text=True, check=True
    )
    return dict(json.loads(run.stdout))


def main(revision: str, turns: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        there = Path(name) / "then"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--detach", "--quiet", str(there), revision], check=True)
        try:
            runs = [(timed(there / "src"), timed(ROOT / "src")) for _ in range(turns)]
        finally:
            subprocess.run([*git, "remove", "--force", str(there)], check=True)
    print(f"sets per second at {revision} and now, the best of {turns} turns; goals as ratios")
    for what, goal in GOALS.items():
        then, now = (1 / min(run[i][what] for run in runs) for i in (0, 1))
        verdict = "reached" if now / then >= goal else "MISSED"
        print(f"{what}: {then:,.0f} -> {now:,.0f}, {now / then:.1f} times ({goal}: {verdict})")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else FIRST, int(sys.argv[2]) if len(sys.argv) > 2 else 3)
