"""What the study is held to, each goal with the value that this run reached: computed, never typed in."""

from __future__ import annotations

from collections.abc import Iterator

from cbdl.studies.goal import Goal
from cbdl.studies.pancreas.comparison import PAIRS, below, improvement, paired, unsafe
from cbdl.studies.pancreas.members import ALPHAS, LINE_UPS
from cbdl.studies.pancreas.metrics import UNSAFE_LOW
from cbdl.studies.pancreas.runs import Results
from cbdl.studies.pancreas.speed import EPISODES, Speed

FEWER = 0.2
"""Of the time below 70."""
SECONDS = 2.0


def goals(results: Results, speed: Speed | None, seed: int) -> Iterator[Goal]:
    """Of every pair, CBDL against EBNN; then seconds."""
    whole = len(results.names) >= 10 and results.cases.each >= 15  # a moment's run tells nothing
    for pair in PAIRS:
        ours, theirs = results.days[f"{pair.ours} CBDL"], results.days[f"{pair.theirs} EBNN"]
        pooled = float(unsafe(ours).mean()), float(unsafe(theirs).mean())
        yield Goal(
            f"{pair.name}: t_unsafe, EBNN - CBDL, all alphas",
            0.0,
            None,
            100 * (pooled[1] - pooled[0]) if whole else None,
            " points",
        )
        for place, alpha in enumerate(ALPHAS[1:], start=1):
            times = unsafe(theirs, place), unsafe(ours, place)
            low = paired(*times, results.plan.resamples, seed).low
            yield Goal(
                f"{pair.name}: Perf_diff at {1 - alpha:g}, lower end",
                0.0,
                None,
                low if whole else None,
                strict=True,
            )
        low_times = (below(days, UNSAFE_LOW).mean() for days in (theirs, ours))
        fewer = float(improvement(*low_times))
        yield Goal(f"{pair.name}: less time below 70", FEWER, None, fewer if whole else None)
    for own in LINE_UPS:
        what = f"a decision for {EPISODES} episodes, {own.name}"
        yield Goal(what, None, SECONDS, None if speed is None else speed.decision[own.name], " s")
