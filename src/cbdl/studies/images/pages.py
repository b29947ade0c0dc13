"""The parts of the report: clean scores, corrupted rows, rejection, foreign rows, detection, measures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from cbdl.plots import images as figures
from cbdl.studies.images import published, published_noises
from cbdl.studies.images.lines import (
    AVERAGED,
    BNN,
    CBDL,
    CREDAL,
    DROPOUT,
    EBNN,
    EBNN_LABEL,
    ENSEMBLE,
    LINES,
    OURS,
    ROBUST,
    WRAPPER,
)
from cbdl.studies.images.measures import SHARES
from cbdl.studies.images.published_noises import METHODS
from cbdl.studies.images.sources import CLEAN, SEVERITIES, SOURCES, Source
from cbdl.studies.images.tables import LEVELS, Table
from cbdl.studies.part import Part, cell

SETS = {
    "clean": "clean",
    **{name: source.title for name, source in SOURCES.items()},
}
"""What sets of rows are called in tables; others go by their own name."""
DRAWN = (CBDL, OURS, ENSEMBLE, EBNN, BNN)
"""The lines of the figures of rejection."""
REJECTED_BY = ("error", "total", "epistemic")
"""What else rows could be rejected by."""
ABOUT = (
    f"{CBDL}: the hull of four mean-field members, as in the paper. {EBNN} averages them (variance of the probability "
    f"vector as aleatoric, as in the paper), {EBNN_LABEL} with the variance of the label; {BNN} is the best of them. "
    f"{ENSEMBLE}: four deterministic networks; {WRAPPER}: their box; {DROPOUT}: one network with dropout; {ROBUST}: "
    f"the box of four robust members; {OURS}: the ensemble's average with a background of every label; {AVERAGED}: "
    "its labels averaged too."
)


def _title(name: str) -> str:
    return SETS.get(name, name)


def share(value: float) -> str:
    """A number between 0 and 10 in four characters.

    >>> share(0.9312), share(1.5), share(12.3)
    ('.931', '1.50', '12.3')
    """
    text = f"{value:.3f}"
    return text[1:] if text.startswith("0") else text[:4]


# --- clean rows -------------------------------------------------------------------------------------------


def of_scores(table: Table, source: Source) -> Part:
    """Every line on clean test rows, the accuracies of the members, and seconds of training."""
    rows, numbers = [], {}
    names = ("accuracy", "nll", "brier", "ece", "area")
    for line in table.lines(source):
        own = {name: table.mean(source, lambda n, k=name, i=line: n["scores"][i][k]) for name in names}  # type: ignore[misc]
        rows.append((line, *(cell(own[name], 4) for name in names)))
        numbers[line] = own
    first = table.of(source)[0].numbers
    members = {
        line_up: f"{min(values):.3f} to {max(values):.3f}" for line_up, values in first["members"].items()
    }
    seconds = ", ".join(f"{line_up} {value:.0f}" for line_up, value in first["seconds"].items())
    count = first["rows"]
    return Part(
        name=f"scores-{source.name}",
        title=f"{source.title}: clean rows",
        text=f"{count['train']:,} training rows, {count['tests']:,} test rows; area: under accuracy-rejection. "
        f"{_seeds(table, source)}",
        header=("line", "accuracy", "NLL", "Brier", "ECE", "area"),
        rows=tuple(rows),
        lessons=(
            f"Members' accuracies: {'; '.join(f'{name} {own}' for name, own in members.items())}.",
            f"Processor seconds of training: {seconds}.",
        ),
        numbers={"lines": numbers, "members": first["members"], "seconds": first["seconds"], "rows": count},
    )


def _seeds(table: Table, source: Source) -> str:
    seeds = len(table.of(source))
    return "One seed." if seeds == 1 else f"Means over {seeds} seeds."


# --- corrupted rows ---------------------------------------------------------------------------------------


GROUPS = {
    "paper": ("the paper's members", (CBDL, EBNN, EBNN_LABEL, BNN)),
    "points": ("deterministic networks", (ENSEMBLE, DROPOUT, WRAPPER, ROBUST, OURS, AVERAGED)),
}
"""Lines that share a table."""


def groups(table: Table, source: Source) -> list[str]:
    """Those of which some line was measured."""
    return [name for name, (_, lines) in GROUPS.items() if set(lines) & set(table.lines(source))]


def of_corrupted(table: Table, source: Source, measure: str, group: str) -> Part:
    """One uncertainty by noise at low, medium and high severity; beside the paper's members the paper's own numbers."""
    words, whole = GROUPS[group]
    lines = [line for line in whole if line in table.lines(source)]
    known = published_noises.SHIFTED.get(source.name, {}) if group == "paper" else {}
    rows, numbers = [], {}
    for noise in source.corruptions:
        own = {
            line: [table.level(source, noise, line, measure, severities) for severities in LEVELS.values()]
            for line in lines
        }
        theirs = {name: _published(known[noise], i, measure) for i, name in enumerate(METHODS) if known}
        cells = [" ".join(map(share, values)) for values in (*theirs.values(), *own.values())]
        rows.append((noise.replace("_", " "), *cells))
        numbers[noise] = {**own, **{f"* {name}": values for name, values in theirs.items()}}
    return Part(
        name=f"{measure}-{group}-{source.name}",
        title=f"{source.title}: {measure} uncertainty of corrupted rows, {words}",
        text="At low (1), medium (2, 3) and high severity (4, 5), means over rows; nats, of EBNN variances."
        f"{' A star: the paper.' if known else ''}",
        header=("noise", *(f"* {name}" for name in METHODS if known), *lines),
        rows=tuple(rows),
        lessons=(),
        numbers=numbers,
    )


def _published(numbers: Sequence[float], method: int, measure: str) -> list[float]:
    """Low, medium and high of one method, from the row of the paper's table."""
    first = 6 * method + (0 if measure == "epistemic" else 3)
    return list(numbers[first : first + 3])


def of_rejection(table: Table, source: Source) -> Part:
    """The area under accuracy-rejection by severity, with the paper's; the figure has the curves."""
    rows, numbers = [], {}
    for method, values in published.SEVERITY.get(source.name, {}).items():
        rows.append((f"* {method}", *map(share, values), share(float(np.mean(values))), "-", "-", "-"))
    for line in table.lines(source):
        own = [table.over_noises(source, line, "area", (severity,)) for severity in SEVERITIES]
        others = [table.over_noises(source, line, f"area_{name}") for name in REJECTED_BY]
        rows.append((line, *map(share, own), share(float(np.mean(own))), *map(share, others)))
        numbers[line] = {
            "area": own,
            "mean": float(np.mean(own)),
            **{f"by_{name}": area for name, area in zip(REJECTED_BY, others, strict=True)},
        }
    chosen = table.of(source)[0].numbers["rejector"]
    return Part(
        name=f"rejection-{source.name}",
        title=f"{source.title}: area under accuracy-rejection, by severity",
        text="Means over noises. Rows are rejected by the entropy of the point prediction, in our line by the "
        "probability of an error as validation rows teach it that are corrupted in other ways; last columns, means of "
        "all severities: by one minus the largest probability, by total and by epistemic uncertainty. A star: the "
        "paper's table.",
        header=("line", *(f"severity {s}" for s in SEVERITIES), "mean", "by error", "by total", "by EU"),
        rows=tuple(rows),
        lessons=(_rejector(chosen),) if chosen else (),
        numbers=numbers,
        caption="Accuracy of what is kept against the share of rejected rows, mean over noises, at each severity.",
        draw=partial(figures.rejection, shares=SHARES, curves=_curves(table, source)),
    )


def _rejector(own: dict[str, Any]) -> str:
    """The rule that all kinds of corruption teach."""
    low, high = (math.exp(end(own["offsets"])) for end in (min, max))
    return (
        f"From corrupted validation rows of all kinds, of ours: the power {own['power']:.2f} of probabilities, "
        f"factors from {low:.2f} to {high:.2f} of classes, the weight {own['weight']:g} of upper minus lower "
        "probability of the named class."
    )


def _drawn(table: Table, source: Source) -> list[str]:
    return [line for line in DRAWN if line in table.lines(source)]


def _curves(table: Table, source: Source) -> dict[str, dict[str, list[float]]]:
    """By severity and line: the mean curve over noises (and seeds)."""

    def one(line: str, severity: int) -> list[float]:
        own = [
            result.numbers["corrupted"][noise][str(severity)][line]["curve"]
            for result in table.of(source)
            for noise in source.corruptions
        ]
        return [float(v) for v in np.mean(own, axis=0)]

    return {f"severity {s}": {line: one(line, s) for line in _drawn(table, source)} for s in SEVERITIES}


def of_noises(table: Table, source: Source) -> Part:
    """The area by noise: mean and deviation over severities; the figure has all curves."""
    known = published_noises.AREAS.get(source.name, {})
    rows, numbers = [], {}
    for noise in source.corruptions:
        own = {
            line: [table.level(source, noise, line, "area", (s,)) for s in SEVERITIES]
            for line in table.lines(source)
        }
        paper = " ".join(map(share, known[noise])) if known else "-"
        rows.append(
            (
                noise.replace("_", " "),
                paper,
                *(f"{share(float(np.mean(v)))} {share(float(np.std(v)))}" for v in own.values()),
            )
        )
        numbers[noise] = {**own, "paper": known.get(noise)}
    first, drawn = table.of(source)[0].numbers["corrupted"], _drawn(table, source)
    return Part(
        name=f"noises-{source.name}",
        title=f"{source.title}: area under accuracy-rejection, by noise",
        text="Mean and deviation over severities. A star: means of the paper's CBDL, EBNN and BNN.",
        header=("noise", "* paper", *table.lines(source)),
        rows=tuple(rows),
        lessons=(),
        numbers=numbers,
        caption="Accuracy against the share of rejected rows: noises downwards, severities 1 to 5 to the right.",
        draw=partial(
            figures.all_rejections,
            shares=SHARES,
            curves={
                noise: {s: {line: first[noise][str(s)][line]["curve"] for line in drawn} for s in SEVERITIES}
                for noise in source.corruptions
            },
        ),
    )


# --- foreign rows -----------------------------------------------------------------------------------------


def of_foreign(table: Table, source: Source) -> Part:
    """Mean uncertainties of clean and foreign rows, and how many times those of clean rows they are."""
    sets = [CLEAN, *table.foreign(source)]
    known = published.MEANS.get(source.name, {})
    rows, numbers = [], {}
    for method in ("CBDL", "EBNN", "BNN") if known else ():
        pairs = [known[name][method] for name in sets if name in known]
        rows.append((f"* {method}", *_increases(pairs)))
    for line in table.lines(source):
        pairs = [
            (table.means(source, name, line, "epistemic"), table.means(source, name, line, "aleatoric"))
            for name in sets
        ]
        rows.append((line, *_increases(pairs)))
        numbers[line] = {
            name: {"epistemic": pair[0], "aleatoric": pair[1]} for name, pair in zip(sets, pairs, strict=True)
        }
    header = [f"{kind} {_title(name)}" for name in sets for kind in ("EU", "AU")]
    return Part(
        name=f"foreign-{source.name}",
        title=f"{source.title}: uncertainty of foreign rows",
        text="Means; in brackets how many times that of clean rows. Nats, of EBNN variances. A star: the "
        "paper's table.",
        header=("line", *header),
        rows=tuple(rows),
        lessons=(),
        numbers=numbers,
    )


def _increases(pairs: Sequence[tuple[float, float]]) -> list[str]:
    clean = pairs[0]
    cells = [share(value) for value in clean]
    for pair in pairs[1:]:
        cells += [f"{share(v)} ({v / max(c, 1e-12):.1f})" for v, c in zip(pair, clean, strict=True)]
    return cells


def of_detection(table: Table, measure: str) -> Part:
    """AUROC of all pairs by one uncertainty."""
    place = 0 if measure == "epistemic" else 1
    rows, numbers = [], {}
    lines = [line for line in LINES if any(line in table.lines(source) for source in table.sources)]
    columns: dict[str, list[float]] = {line: [] for line in lines}
    for source in table.sources:
        for name in table.foreign(source):
            own = {line: table.auroc(source, name, line, measure) for line in lines}
            paper = published.AUROC.get(source.name, {}).get(name, {}).get("CBDL")
            theirs = "-" if paper is None else share(paper[place])
            cells = [_with_spread(own[line], table.deviation(source, name, line, measure)) for line in lines]
            rows.append((f"{source.title} -> {_title(name)}", theirs, *cells))
            numbers[f"{source.name} -> {name}"] = {**own, "paper": None if paper is None else paper[place],
                                                   "interval": _interval(table, source, name)}  # fmt: skip
            for line, value in own.items():
                columns[line] += [] if value is None else [value]
    rows.append(("mean", _paper_mean(table, place), *(cell(float(np.mean(v)), 3) for v in columns.values())))
    drawn = [line for line in (CBDL, OURS, ENSEMBLE, WRAPPER, ROBUST) if line in lines]
    draw: Callable[[Any], None] | None = None
    if measure == "epistemic":
        pairs = {
            f"{_title(k.split(' -> ')[0])} -> {_title(k.split(' -> ')[1])}": v for k, v in numbers.items()
        }
        draw = partial(figures.detection, pairs=pairs, lines=drawn)
    return Part(
        name=f"auroc-{measure}",
        title=f"Detection of foreign rows by {measure} uncertainty",
        text="AUROC, trained on -> asked about. A star: the paper's CBDL. Of the ensemble EU is mutual information, "
        "and total is the entropy of its mean.",
        header=("pair", "* CBDL", *lines),
        rows=tuple(rows),
        lessons=(ABOUT,) if measure == "epistemic" else (),
        numbers=numbers,
        caption="AUROC by epistemic uncertainty; a cross: the paper's CBDL." if draw else "",
        draw=draw,
    )


def _with_spread(value: float | None, deviation: float | None) -> str:
    """A number, with its standard deviation over seeds in brackets if there are several."""
    return cell(value, 3) if deviation is None else f"{cell(value, 3)} ({share(deviation)})"


def _interval(table: Table, source: Source, foreign: str) -> list[float] | None:
    """The bootstrap interval of ours over test rows, of the first seed."""
    own = table.of(source)[0].numbers["auroc"][foreign].get(OURS)
    return None if own is None else [own["epistemic"]["low"], own["epistemic"]["high"]]


def _paper_mean(table: Table, place: int) -> str:
    own = [
        published.AUROC[source.name][name]["CBDL"][place]
        for source in table.sources
        for name in table.foreign(source)
        if source.name in published.AUROC
    ]
    return share(float(np.mean(own))) if own else "-"


def of_measures(table: Table) -> Part:
    """The credal lines by other measures of what they do not know."""
    names = ("epistemic", "epistemic_lower", "hartley", "total")
    rows, numbers = [], {}
    for source in table.sources:
        for line in filter(table.lines(source).__contains__, CREDAL):
            own = {name: _mean_auroc(table, source, line, name) for name in names}
            clean = {
                name: table.means(source, CLEAN, line, name)
                for name in ("epistemic", "epistemic_lower", "hartley")
            }
            floor = table.means(source, CLEAN, line, "floor") if line == CBDL else None
            cells = [cell(v, 3) for v in (*own.values(), *clean.values())]
            rows.append((f"{source.title}, {line}", *cells, cell(floor, 4)))
            numbers[f"{source.name}, {line}"] = {"auroc": own, "clean": clean, "floor": floor}
    return Part(
        name="measures",
        title="Measures of ignorance",
        text="EU: exact upper minus lower entropy; bound: the paper's lower bound of it, by the extremes alone; GH: "
        "generalised Hartley; first as detectors (mean AUROC over foreign sets), then their means over clean rows. "
        "Floor: what the noise of 20 draws alone would show as EU.",
        header=("line", "EU", "bound", "GH", "total", "clean EU", "clean bound", "clean GH", "floor"),
        rows=tuple(rows),
        lessons=(),
        numbers=numbers,
    )


def _mean_auroc(table: Table, source: Source, line: str, measure: str) -> float | None:
    own = [table.auroc(source, name, line, measure) for name in table.foreign(source)]
    known = [value for value in own if value is not None]
    return float(np.mean(known)) if known else None
