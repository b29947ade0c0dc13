"""Answers at the speed of their densities: the kernels against plain numpy passes over the same numbers.

The line: 300 sets of 6 mixtures of 32 Normals; the unit is the evaluation of all these densities on 512 nodes, set by
set, by numpy. Two more kinds of sets: draws that spread by two units, with many modes, and one scale per member.
Classes: 400 sets of 20 distributions over 1,000 classes; the unit is one pass of p log p. R^d: 200 sets of 4 Normals in
R^120; the unit is the matrix product that gives the squared distances of 1,024 points from all of them. One thread,
process time, both sides in turns, the best of several runs; every call starts from a new set, so that nothing is kept
from the last one. "In bulk" is by compiled loops, which a process loads when it has much work for them. A goal that is
not reached stands beside what is promised.

The units are not the same on all processors: where numpy has exponentials and logarithms by AVX-512 they take a third
to a half of the time, while torch's take as long as before. The goals were set where it has not; to see them there,
call it with NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR". Goals against the first version know what it took
on both. Memory is the peak of a process of its own, above what it held with the input in memory.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks._table import Row
from cbdl import CategoricalCredalSet, DiagonalNormalCredalSet, MixtureCredalSet
from cbdl.credal.classes import regions
from cbdl.credal.line import compiled

SETS, MEMBERS, DRAWS, NODES, ALPHA = 300, 6, 32, 512, 0.05
REPEATS = 5


Job = tuple[str, Callable[[], object], float, float, str]
"""Name, call, the promised ratio unit / job, the goal, and a note."""


def mixtures(sets: int = SETS, spread: float = 0.5, scales: int = DRAWS) -> tuple[np.ndarray, np.ndarray]:
    """Predictive mixtures of members that differ by one unit, draws by `spread`, scales from 0.3 to 1."""
    rng = np.random.default_rng(0)
    loc = rng.normal(0, 1, (sets, MEMBERS, 1)) + rng.normal(0, spread, (sets, MEMBERS, DRAWS))
    return loc, np.broadcast_to(rng.uniform(0.3, 1.0, (sets, MEMBERS, scales)), loc.shape)


def densities(loc: np.ndarray, scale: np.ndarray) -> None:
    y = np.linspace(-6, 6, NODES)
    for mu, s in zip(loc[..., None], scale[..., None], strict=True):
        z = (y - mu) / s
        (np.exp(-0.5 * z * z) / (s * np.sqrt(2 * np.pi))).mean(-2)


def alternate(*jobs: Callable[[], object]) -> list[float]:
    """Process seconds of the fastest of several runs of each job, taken in turns after a first one of each."""
    best = [float("inf")] * len(jobs)
    for job in jobs:
        job()
    for _ in range(REPEATS):
        for i, job in enumerate(jobs):
            start = time.process_time()
            job()
            best[i] = min(best[i], time.process_time() - start)
    return best


def table(what: str, unit: str, peer: Callable[[], object], jobs: list[Job]) -> list[Row]:
    base, *seconds = alternate(peer, *(job[1] for job in jobs))
    return [
        Row(f"{name}, {what}", own, unit, base, promise, note, goal)
        for (name, _, promise, goal, note), own in zip(jobs, seconds, strict=True)
    ]


def line(
    what: str, promises: tuple[float, float, float, float], spread: float = 0.5, scales: int = DRAWS
) -> list[Row]:
    """The goals: 1, 2, a half and a quarter of the densities, for every kind of sets."""
    loc, scale = mixtures(spread=spread, scales=scales)

    def new() -> MixtureCredalSet:
        return MixtureCredalSet(loc, scale)

    jobs: list[Job] = [
        ("uncertainty", lambda: new().uncertainty(), promises[0], 1, ""),
        ("minimal region", lambda: new().region(ALPHA, "minimal"), promises[1], 0.5, ""),
        ("maximin", lambda: new().decide("maximin"), promises[2], 2, ""),
        ("union", lambda: new().region(ALPHA), promises[3], 4, ""),
    ]
    return table(what, f"numpy densities, {NODES} nodes", lambda: densities(loc, scale), jobs)


def wide_logarithms() -> bool:
    """Whether numpy's logarithms, and so its units, are those of AVX-512."""
    info = np.lib.introspect.opt_func_info(func_name="^log$", signature="float64")
    return any(
        own["current"].startswith(("X86_V4", "AVX512")) for each in info.values() for own in each.values()
    )


def classes(how: str = "", sets: int = 400, m: int = 20, J: int = 1000) -> list[Row]:
    """The goals: twice and four times the speed of the first version, which took 19.5 units each, or 56.5."""
    first = 56.5 if wide_logarithms() else 19.5
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (sets, 1, J)) + rng.normal(0, 1, (sets, m, J))
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    twice, four_times = (f"goal: {n} x the first version" for n in (2, 4))
    jobs: list[Job] = [
        ("uncertainty", lambda: CategoricalCredalSet(p).uncertainty(), 0.027, 2 / first, twice),
        ("union", lambda: CategoricalCredalSet(p).region(ALPHA), 0.05, 4 / first, four_times),
    ]
    memory = np.empty_like(p)  # no new memory in the unit, which would be most of it
    return table(
        f"{how}{sets} sets, m={m}, J={J}",
        "numpy p log p",
        lambda: np.multiply(p, np.log(p, out=memory), out=memory),
        jobs,
    )


_PEAK = """
import sys
import numpy as np
from cbdl import CategoricalCredalSet

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

few = CategoricalCredalSet(np.full((4, 20, 1000), 1e-3))  # what is imported and kept once
few.uncertainty(), few.region(0.05)
rng = np.random.default_rng(0)
p = np.empty((4000, 20, 1000))
for part in p.reshape(80, 50, 20, 1000):
    part[:] = np.exp(rng.normal(0, 2, (50, 1, 1000)) + rng.normal(0, 1, part.shape))
    part /= part.sum(-1, keepdims=True)
before = peak()
getattr(CategoricalCredalSet(p), sys.argv[1])(*map(float, sys.argv[2:]))
print(peak() - before)
"""


def memory() -> list[Row]:
    """Of 4,000 sets of 20 distributions over 1,000 classes, 610 MB; a set is a copy of its input."""
    answers = []
    for name, arguments in (("uncertainty", ()), ("region", (str(ALPHA),))):
        command = [sys.executable, "-c", _PEAK, name, *arguments]
        used = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        note = f"MB, not seconds: {used - 610:.0f} beside the copy"
        answers.append(Row(f"{name}, memory beyond 4000 sets, m=20, J=1000", used, "1 GB", 1024, 1, note, 1))
    return answers


def space(sets: int = 200, m: int = 4, d: int = 120, points: int = 1024) -> list[Row]:
    """The goals: five times the speed of the first version, which took 22, 24 and 6.5 units, or 31, 25 and 12."""
    first = (31, 25, 12.3) if wide_logarithms() else (22, 24, 6.5)
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(0, 0.3, (sets, m, d)), rng.uniform(0.5, 1.5, (sets, m, d))
    left, right = rng.normal(size=(sets * m * m, 2 * d)), rng.normal(size=(2 * d, points))

    def new() -> DiagonalNormalCredalSet:
        return DiagonalNormalCredalSet(loc, scale)

    note = "goal: 5 x the first version"
    jobs: list[Job] = [
        ("uncertainty", lambda: new().uncertainty(), 0.1, 5 / first[0], note),
        ("box", lambda: new().region(ALPHA, "box"), 0.2, 5 / first[1], note),
        ("union", lambda: new().region(ALPHA), 0.33, 5 / first[2], note),
    ]
    return table(f"{sets} sets, m={m}, d={d}", "numpy distances", lambda: left @ right, jobs)


def rows() -> list[Row]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    what = f"{SETS} sets, m={MEMBERS}, M={DRAWS}"
    try:
        return [
            *line(what, (1.2, 0.4, 1.3, 2.5)),
            *line(f"{what}, draws that spread by 2", (0.8, 0.12, 0.6, 0.45), spread=2.0),
            *line(f"{what}, one scale per member", (1, 0.3, 1.3, 2.4), scales=1),
            *classes(),
            *memory(),
            *space(),
            *in_bulk(what),
        ]
    finally:
        torch.set_num_threads(threads)


def in_bulk(what: str) -> list[Row]:
    """The same by compiled loops."""
    before = compiled.LEAST, regions.LOOPS
    compiled.LEAST = regions.LOOPS = 0
    try:
        return [
            *line(f"in bulk: {what}", (1.5, 0.4, 1.5, 3)),
            *line(f"in bulk: {what}, draws that spread by 2", (1.2, 0.15, 0.6, 1), spread=2.0),
            *line(f"in bulk: {what}, one scale per member", (1.5, 0.3, 1.5, 3), scales=1),
            *classes("in bulk: "),
        ]
    finally:
        compiled.LEAST, regions.LOOPS = before
