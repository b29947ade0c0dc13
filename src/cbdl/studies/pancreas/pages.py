"""The parts of the report: patients, members, Perf_diff beside the paper's, metrics, figures, seconds, goals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from cbdl.plots import pancreas as figures
from cbdl.studies.pancreas import episodes, published
from cbdl.studies.pancreas.comparison import (
    LEVEL,
    PAIRS,
    Interval,
    Regions,
    below,
    paired,
    regions,
    summary,
    unsafe,
)
from cbdl.studies.pancreas.controllers import HIGH_READING, LOW_READING, highest_dose
from cbdl.studies.pancreas.cost import TARGET, Weights
from cbdl.studies.pancreas.forecasts import LOOKS
from cbdl.studies.pancreas.members import ALPHAS, DOUBTFUL, LINE_UPS, OURS, SEEDS, Trained
from cbdl.studies.pancreas.metrics import UNSAFE_LOW, GlucoseMetrics, control_variability
from cbdl.studies.pancreas.patients import Array, virtual_patients
from cbdl.studies.pancreas.plans import TUNED_ON
from cbdl.studies.pancreas.runs import BASAL, BOLUS, CONTESTANTS, ORACLE, SINGLE, Results, settings
from cbdl.studies.pancreas.sensor import SAMPLE_MINUTES as STEP
from cbdl.studies.pancreas.speed import EPISODES, Speed
from cbdl.studies.part import Part, cell

LEVELS = tuple(f"{1 - alpha:g}" for alpha in ALPHAS)
TIMES = {
    "unsafe": ("unsafe", 100, 1),
    "below_70": ("<70", 100, 1),
    "above_300": (">300", 100, 1),
    "in_range": ("70-180", 100, 0),
}
RISKS = {
    "below_54": ("<54", 100, 1),
    "above_250": (">250", 100, 0),
    "mean": ("mean", 1, 0),
    "variation": ("CV", 1, 2),
    "lbgi": ("LBGI", 1, 1),
    "hbgi": ("HBGI", 1, 1),
    "risk": ("risk", 1, 1),
    "insulin": ("U", 1, 0),
}
"""Heading, factor and digits of a number."""


def of_patients(results: Results) -> Part:
    """Who they are, what they eat, and how much insulin a plan may hold."""
    p = virtual_patients(results.names)
    grams = episodes.meals(p, episodes.DAY)
    highest = {own.name: highest_dose(p, own.reach) for own in (SEEDS, OURS)}
    rows, numbers = [], {}
    for i, name in enumerate(p.names):
        eaten = [float(grams[i, minute]) for minute in episodes.MEAL_MINUTES]
        most = [float(own[i]) for own in highest.values()]
        own = {"kg": p.BW[i], "basal": 60 * p.basal[i], "highest": most, "grams": eaten}
        rows.append(
            (
                name,
                f"{p.BW[i]:.0f}",
                f"{60 * p.basal[i]:.2f}",
                *(f"{dose:.1f}" for dose in most),
                ", ".join(f"{g:.0f}" for g in eaten),
            )
        )
        numbers[name] = {k: v if isinstance(v, list) else float(v) for k, v in own.items()}
    w = Weights()
    return Part(
        name="patients",
        title=f"{len(p)} patients, {results.cases.each} episodes each",
        text=f"{results.cases.minutes / 60:g} hours from 6:00, {len(results.cases.seeds)} seeds of the sensor, "
        f"{len(results.cases.initial)} initial values from {min(results.cases.initial):g} to "
        f"{max(results.cases.initial):g} mg/dL; unannounced meals at 7:30, 12:30 and 18:30.",
        header=("patient", "kg", "basal U/h", "most (x basal)", "most of ours", "meals (g)"),
        rows=tuple(rows),
        lessons=(
            f"Controllers plan 5 doses of 5 minutes by CMA-ES and look {LOOKS} times 5 steps ahead. The cost: "
            f"{w.target:g} ((G_m - {TARGET:g}) / 50)^2 + {w.unsafe:g} times the squared distances / 50 of G_l below "
            f"{70 + w.margin:g} and of G_u above {300 - w.margin:g}, and {w.insulin:g} per dose. These numbers, and "
            f"how far doses may go beyond those of training ({SEEDS.reach:g} and, of ours and the oracle, "
            f"{OURS.reach:g} times as far from basal), were chosen on other patients: {', '.join(TUNED_ON)}. Above a "
            f"reading of {HIGH_READING:g} plans hold at least basal insulin, below {LOW_READING:g} at most; the "
            "oracle's are free.",
        ),
        numbers={"patients": numbers, "settings": settings()},
    )


def of_members(results: Results) -> Part:
    """What validation windows say of the line-ups."""
    rows, numbers = [], {}
    for name, arrays in results.trained.items():
        every = [Trained.from_arrays(own).scores for own in arrays]
        own = {key: float(np.mean([one[key] for one in every])) for key in every[0]}
        numbers[name] = own
        regions = [f"{own[f'coverage_{a:g}']:.3f} / {own[f'width_{a:g}']:.0f}" for a in ALPHAS]
        nll = f"{own['nll_best']:.2f} - {own['nll_worst']:.2f}"
        rows.append((name, f"{own['members']:.1f}", f"{own['rmse']:.2f}", nll, *regions))
    return Part(
        name="members",
        title="Forecasts five steps ahead, on validation windows without meals",
        text=f"{results.plan.samples:,} training windows per patient, {results.plan.epochs} epochs; means over "
        "patients. Of sensor values, whose noise alone has a standard deviation of about 11 mg/dL.",
        header=("line-up", "m", "RMSE", "NLL", *LEVELS),
        rows=tuple(rows),
        lessons=(
            "m: plausible members; NLL: of the best and of the worst member; at 0.9, 0.95 and 0.99: coverage / mean "
            "width of the IHDR in mg/dL. Regions of ours are calibrated on these windows.",
        ),
        numbers=numbers,
    )


def of_differences(results: Results, seed: int) -> Part:
    """Perf_diff beside the paper's."""
    rows = [
        (f"* {name}", *(f"{100 * value:+.1f}" for value in values), "-")
        for name, values in published.PERF_DIFF.items()
    ]
    numbers: dict[str, Any] = {}
    for what, times in (("", unsafe), (", <70", partial(below, limit=UNSAFE_LOW))):
        for pair in PAIRS:
            average, credal = results.days[f"{pair.theirs} EBNN"], results.days[f"{pair.ours} CBDL"]
            own = {
                label: paired(
                    times(average, alpha=place), times(credal, alpha=place), results.plan.resamples, seed
                )
                for label, place in [*zip(LEVELS, range(len(ALPHAS)), strict=True), ("all", None)]
            }
            rows.append((pair.name + what, *map(_interval, own.values())))
            numbers[pair.name + what] = {label: value.plain() for label, value in own.items()}
    return Part(
        name="perf-diff",
        title="Perf_diff = (t_EBNN - t_CBDL) / t_EBNN, %",
        text=f"Positive: less time below 70 or above 300 with CBDL. In brackets: {LEVEL:.0%} intervals, from patients "
        "and their episodes drawn in pairs. Times are pooled over patients before they are divided; 0 / 0 counts as 0.",
        header=("members", *LEVELS, "all"),
        rows=tuple(rows),
        lessons=(
            "A star: the paper's table, on its own patients, meals and controller. <70: of the time below 70 alone. "
            f"{OURS.name} - {SEEDS.name}: CBDL of ours against EBNN of the paper's members. {DOUBTFUL.name}: the "
            "networks of ours, each with two likelihoods: a forecast error is the sensor's, or goes on.",
        ),
        numbers=numbers,
    )


def of_regions(results: Results) -> Part:
    """[G_l, G_u] under meals, which no network has seen."""
    minutes = STEP * np.arange(results.cases.minutes // STEP)
    starts = np.array([minute for minute in episodes.MEAL_MINUTES if minute < results.cases.minutes])
    since = minutes[:, None] - starts
    after = np.any((since >= 0) & (since < 120), axis=1, keepdims=True)[:, 0]
    rows, numbers = [], {}
    for one in CONTESTANTS:
        every = [regions(results.days[one.name], place, after) for place in range(len(one.alphas))]
        if every:
            numbers[one.name] = {level: _plain(own) for level, own in zip(LEVELS, every, strict=True)}
            cells = [f"{own.coverage:.3f} / {own.width:.0f}" for own in every]
            middle = _plain(every[ALPHAS.index(0.05)])
            rows.append((one.name, *cells, _soon(every[ALPHAS.index(0.05)]), cell(middle["otherwise"], 0)))
    return Part(
        name="regions",
        title="[G_l, G_u] in closed loop, with meals",
        text="How often true glucose five steps later was in it / its mean width in mg/dL; and at 0.95 the same in the "
        "two hours after a meal began, and the width at other times.",
        header=("controller", *LEVELS, "after meals", "otherwise"),
        rows=tuple(rows),
        lessons=("Readings, which networks have learned, have noise; true glucose has none.",),
        numbers=numbers,
    )


def _soon(own: Regions) -> str:
    """Coverage and width soon after meals, if there were any."""
    return f"{own.covered_after_meals:.3f} / {own.after_meals:.0f}" if math.isfinite(own.after_meals) else "-"


def _plain(own: Regions) -> dict[str, float | None]:
    """For JSON, which knows no nan."""
    return {name: value if math.isfinite(value) else None for name, value in vars(own).items()}


def _interval(own: Interval) -> str:
    def share(value: float, digits: int = 1) -> str:
        return f"{100 * value:+.{digits}f}" if math.isfinite(value) else "-inf"

    return f"{share(own.value)} ({share(own.low, 0)}, {share(own.high, 0)})"


def _lines() -> Iterator[tuple[str, str, int]]:
    """(label, contestant, place of its alpha), all of them."""
    for own in CONTESTANTS:
        if not own.alphas:
            yield own.name, own.name, 0
        for place, level in enumerate(LEVELS if own.alphas else ()):
            yield f"{own.name} {level}", own.name, place


def of_metrics(results: Results) -> Part:
    """Times in ranges of all contestants."""
    numbers = {
        label: vars(summary(results.days[name], results.cases, place)) for label, name, place in _lines()
    }
    return Part(
        name="metrics",
        title="All controllers: % of time",
        text="Means over patients and episodes, of true glucose. Basal-bolus is told of meals, the oracle knows the "
        "patient's equations and state; the others know readings and doses.",
        header=("controller", *(heading for heading, _, _ in TIMES.values())),
        rows=tuple(_by_level(results, TIMES)),
        lessons=("Three numbers: at 0.9, 0.95 and 0.99. unsafe: below 70 or above 300 mg/dL.",),
        numbers=numbers,
    )


def of_risks(results: Results) -> Part:
    """The other metrics, at 0.95."""
    place = ALPHAS.index(0.05)
    rows = []
    for own in CONTESTANTS:
        numbers = summary(results.days[own.name], results.cases, place if own.alphas else 0).numbers
        rows.append((own.name, *(cell(f * numbers[key], d) for key, (_, f, d) in RISKS.items())))
    return Part(
        name="risks",
        title="All controllers at 0.95: risk and insulin",
        text="Below 54 and above 250 mg/dL: % of time; U: units of insulin in an episode; Kovatchev's risk over all "
        "samples. The numbers of the other levels are in metrics.",
        header=("controller", *(heading for heading, _, _ in RISKS.values())),
        rows=tuple(rows),
        lessons=(),
        numbers={row[0]: list(row[1:]) for row in rows},
    )


def _by_level(results: Results, columns: dict[str, tuple[str, int, int]]) -> Iterator[tuple[str, ...]]:
    """A row per contestant, in every cell the numbers of its alphas."""
    for own in CONTESTANTS:
        every = [
            summary(results.days[own.name], results.cases, place).numbers
            for place in range(max(1, len(own.alphas)))
        ]
        cells = [" ".join(cell(f * one[key], d) for one in every) for key, (_, f, d) in columns.items()]
        yield own.name, *cells


def of_zones(results: Results) -> Part:
    """The control-variability grid."""
    zones = ("A", "lower B", "B", "upper B", "lower C", "upper C", "lower D", "upper D", "E")
    headings = ("A", "lo B", "B", "up B", "lo C", "up C", "lo D", "up D", "E")
    rows, points, numbers = [], {}, {}
    for one in CONTESTANTS:
        counts = [
            summary(results.days[one.name], results.cases, place).zones
            for place in range(max(1, len(one.alphas)))
        ]
        pooled = {zone: sum(own.get(zone, 0) for own in counts) for zone in zones}
        rows.append((one.name, *map(str, pooled.values())))
        numbers[one.name] = pooled
    credal = [f"{own.name} CBDL" for own in (SEEDS, OURS, DOUBTFUL)]
    for name in (BASAL, BOLUS, f"{SEEDS.name} EBNN", *credal):
        glucose = results.days[name]["glucose"]
        points[name] = [own.ravel() for own in control_variability(glucose[:, min(1, glucose.shape[1] - 1)])]
    return Part(
        name="zones",
        title="Control-variability grid",
        text="Episodes in each zone, of all alphas: A is best, B good, lo: too low, up: too high, E both.",
        header=("controller", *headings),
        rows=tuple(rows),
        lessons=(),
        numbers=numbers,
        caption="Lowest (2.5 %) and highest (97.5 %) glucose of every episode, at 0.95.",
        draw=partial(figures.grid, points=points),
    )


def of_pairs(results: Results) -> Part:
    """t_unsafe by patient."""
    shown = [f"{own.name} {rule}" for own in LINE_UPS for rule in ("EBNN", "CBDL")]
    times = {name: unsafe(results.days[name]) for name in shown}
    means = {name: 100 * own.mean(1) for name, own in times.items()}
    rows = [(p, *(cell(float(means[name][i]), 2) for name in shown)) for i, p in enumerate(results.names)]
    pairs = {own.name: (means[f"{own.name} EBNN"], means[f"{own.name} CBDL"]) for own in LINE_UPS}
    return Part(
        name="by-patient",
        title="Unsafe time by patient, %",
        text="Means over episodes and alphas.",
        header=(
            "patient",
            *(f"{own.name.removeprefix('MF ')} {rule}" for own in LINE_UPS for rule in ("EBNN", "CBDL")),
        ),
        rows=tuple(rows),
        lessons=(),
        numbers={name: dict(zip(results.names, own.tolist(), strict=True)) for name, own in means.items()},
        caption="Unsafe time with EBNN (circles) and with CBDL (dots), every patient a pair.",
        draw=partial(figures.pairs, pairs=pairs, names=results.names),
    )


def of_traces(results: Results) -> Part:
    """One patient's episodes: that in which EBNN of the paper's members is unsafe for longest."""
    place = ALPHAS.index(0.05)
    worst = unsafe(results.days[f"{SEEDS.name} EBNN"], place)
    patient, episode = (int(i) for i in np.unravel_index(np.argmax(worst), worst.shape))
    name = results.names[patient]
    shown = (f"{SEEDS.name} EBNN", *(f"{own.name} CBDL" for own in (SEEDS, OURS, DOUBTFUL)))
    traces = {one: _trace(results, one, patient, place, episode) for one in shown}
    rows, numbers = [], {}
    for one in (*shown, SINGLE, BASAL, BOLUS, ORACLE):
        days = results.days[one]["glucose"]
        own = GlucoseMetrics.of(days[patient, min(place, days.shape[1] - 1), episode])
        values = [100 * float(own.unsafe), 100 * float(own.below_70), 100 * float(own.in_range)]
        rows.append((one, *(cell(value, 1) for value in values)))
        numbers[one] = dict(zip(("unsafe", "below_70", "in_range"), values, strict=True))
    grams = episodes.meals(virtual_patients([name]), results.cases.minutes)[0]
    return Part(
        name="traces",
        title=f"An episode of {name}",
        text="The one of all in which EBNN of the paper's members at 0.95 is unsafe for longest. % of time.",
        header=("controller", "unsafe", "<70", "70-180"),
        rows=tuple(rows),
        lessons=(),
        numbers={"patient": name, "episode": episode, **numbers},
        caption=f"{name}: true glucose, readings (dots), [G_l, G_u] where it was predicted for, insulin, meals.",
        draw=partial(figures.traces, traces=traces, meals=grams),
    )


def _trace(results: Results, name: str, patient: int, place: int, episode: int) -> dict[str, Array]:
    return {key: own[patient, place, episode].astype(float) for key, own in results.days[name].items()}


def of_speed(speed: Speed) -> Part:
    """Seconds."""
    return Part(
        name="seconds",
        title="Seconds",
        text=f"One lock-step decision for {EPISODES} episodes; the training of all members of one patient, beside "
        "other processes. Of the machine as it was.",
        header=("line-up", f"{EPISODES} decisions", "training"),
        rows=tuple(
            (own.name, cell(speed.decision[own.name], 3), cell(speed.training[own.trained_as], 1))
            for own in LINE_UPS
        ),
        lessons=("`python -m benchmarks pancreas` compares training with four networks of bayesian-torch.",),
        numbers={"decision": speed.decision, "training": speed.training},
    )
