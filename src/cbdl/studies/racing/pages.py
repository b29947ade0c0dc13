"""The parts of the report: the track, coverage beside the paper's, scores, equal widths, samples, seconds, verdicts."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

from cbdl.plots import racing as figures
from cbdl.studies.part import Part, cell
from cbdl.studies.racing import published, shapes
from cbdl.studies.racing.measures import (
    CALIBRATED,
    CBDL,
    CBDL_CONFORMAL,
    EBNN,
    EBNN_CONFORMAL,
    LEVELS,
    PLAIN,
    STEP_BOXES,
    TRAJECTORY_BOXES,
)
from cbdl.studies.racing.members import OURS, PAPER, VARIED
from cbdl.studies.racing.runs import IN, OTHER, PHYSICS, RACE, Result
from cbdl.studies.racing.samples import SHARES
from cbdl.studies.racing.speed import Speed
from cbdl.studies.racing.tables import Spread, Table, spread
from cbdl.studies.racing.worlds import FASTER, SLIPPERY, World

SCORES = ("ade", "fde", "min_ade", "nll", "crps", "energy")
CENTI = 100.0


def of_track(world: World) -> Part:
    """The lines, with their lengths and lap times; the map."""
    rows, numbers = [], {}
    for name, line in world.lines.items():
        speed = line.speed
        own = [line.curve.length, line.lap_time, float(speed.min()), float(speed.max())]
        rows.append((name, *(cell(value, 1) for value in own)))
        numbers[name] = dict(zip(("length", "lap_seconds", "slowest", "fastest"), own, strict=True))
    return Part(
        name="track",
        title=f"{world.track.name}, {world.track.length:.0f} m",
        text=f"Speeds at a gain of 1; {world.cars} cars: two drivers, four lines, gains "
        f"{', '.join(f'{gain:g}' for gain in world.length.gains)}, {world.duration:.0f} s each.",
        header=("line", "length (m)", "lap (s)", "slowest (m/s)", "fastest (m/s)"),
        rows=tuple(rows),
        lessons=(),
        numbers=numbers,
        caption="The track with its four lines, and its tightest bend.",
        draw=partial(figures.track_map, track=world.track, lines=world.lines),
    )


# --- coverage ---------------------------------------------------------------------------------------------


SHORT = {
    EBNN: "EBNN",
    CBDL: "CBDL",
    EBNN_CONFORMAL: "EBNN conf.",
    CBDL_CONFORMAL: "CBDL conf.",
    STEP_BOXES: "boxes",
    TRAJECTORY_BOXES: "traj. box",
    CALIBRATED: "calibrated",
}
"""What regions are called in tables."""
ALONE = {EBNN: "HDR", EBNN_CONFORMAL: "conf."}
"""The same of a forecast that is no credal set."""
LEGEND = (
    "Every cell: at 0.9, 0.95, 0.99; +-: standard deviation of the multi-step coverage at 0.9 over seeds; mean widths "
    "and areas of a step's region. MF: mean field, MF4: of four architectures. EBNN: ellipse of the averaged Normal, "
    "CBDL: union of the members' ellipses, conf.: conformal on validation windows, boxes: exact lower probability of a "
    "step, traj. box: of all steps, calibrated: tubes from windows that a member has not seen. A @ B: A at B's "
    "mean width.",
)


def of_coverage(table: Table, split: str, test: str) -> Part:
    """Every line-up's regions on one kind of test windows, beside the paper's."""
    rows: list[tuple[str, ...]] = []
    numbers: dict[str, Any] = {}
    for method, known in published.PAPER.get(test, {}).items():
        rows.append((f"* {method}", *(_three(known[kind]) for kind in ("one", "multi")), "-", "-", "-"))
    for line_up in table.line_ups(split):
        names = ALONE if line_up == PHYSICS else SHORT
        own = {name: _spreads(table, split, test, line_up, region) for region, name in names.items()}
        for name, spreads in {**own, **dict(_at_equal_width(table, split, test, line_up))}.items():
            if spreads:
                rows.append((f"{_short(line_up)} {name}", *_cells(spreads)))
                numbers[f"{_short(line_up)} {name}"] = _plain(spreads)
    return Part(
        name=f"coverage-{split}-{test}".replace(" ", "-"),
        title=f"Coverage, {split} split, {test}",
        text=_about(split, test, table),
        header=("region", "one-step", "multi-step", "+-", "width (mm)", "area (dm2)"),
        rows=tuple(rows),
        lessons=LEGEND if test == IN else (),
        numbers=numbers,
    )


def _short(line_up: str) -> str:
    return "our" if line_up == OURS.name else line_up


def _three(values: Sequence[float]) -> str:
    return " ".join(_share(value) for value in values)


def _share(value: float) -> str:
    """A share in four characters."""
    text = f"{value:.3f}"
    return text[1:] if text[0] == "0" else text[:4]


def _about(split: str, test: str, table: Table) -> str:
    seeds = len(table.of(split, test, table.line_ups(split)[0]))
    where = {
        IN: "all lines",
        RACE: "trained on centre, left and right, tested on the race line",
        "faster": f"trained on all lines, tested with speed gains {FASTER[0]:g} and {FASTER[1]:g}",
        "slippery": f"trained on all lines, tested with a friction of {SLIPPERY:g} instead of 1.05",
        OTHER: "trained on all lines, tested on the other track",
    }[test]
    how = (
        "Test windows stand on stretches of the track that no training window has touched"
        if split == "blocked" and test != OTHER
        else "Test windows overlap with training windows, as in the paper"
        if split == "random"
        else "No window of the other track was trained on"
    )
    stars = " A star: the paper's table, on its own data." if test in published.PAPER else ""
    return f"{where[0].upper()}{where[1:]}. {how}. Means over {seeds} seed{'s' if seeds > 1 else ''}.{stars}"


Spreads = dict[str, list[Spread]]


def _spreads(table: Table, split: str, test: str, line_up: str, region: str) -> Spreads:
    own: Spreads = {}
    for name in ("one", "multi", "width", "area"):
        values = [table.region(split, test, line_up, region, level, name) for level in LEVELS]
        if any(value is None for value in values):
            return {}
        own[name] = [value for value in values if value is not None]
    return own


def _at_equal_width(table: Table, split: str, test: str, line_up: str) -> Iterator[tuple[str, Spreads]]:
    """EBNN inflated to CBDL's width, CBDL deflated to EBNN's; for ours also with the calibrated tubes."""
    pairs = [(EBNN, CBDL), (CBDL, EBNN)]
    if table.curves(split, test, line_up, CALIBRATED):
        pairs += [(EBNN, CALIBRATED), (CALIBRATED, EBNN)]
    for region, other in pairs:
        if not table.curves(split, test, line_up, region) or not table.curves(split, test, line_up, other):
            continue
        own: Spreads = {"one": [], "multi": [], "width": []}
        for level in LEVELS:
            widths = table.regions(split, test, line_up, other, level, "width")
            pairs_of = table.at_widths(split, test, line_up, region, widths)
            for place, name in enumerate(("one", "multi")):
                own[name].append(_known([pair[place] for pair in pairs_of]))
            own["width"].append(_known(widths))
        yield f"{TINY[region]} @ {TINY[other]}", own


TINY = {EBNN: "EBNN", CBDL: "CBDL", CALIBRATED: "cal"}


def _known(values: Sequence[float]) -> Spread:
    own = spread(values)
    assert own is not None
    return own


def _cells(own: Spreads) -> tuple[str, ...]:
    deviation = own["multi"][0].deviation
    return (
        *(_three([value.mean for value in own[name]]) for name in ("one", "multi")),
        "-" if deviation is None else f"{deviation:.2f}".lstrip("0"),
        " ".join(f"{1000 * value.mean:.0f}" for value in own["width"]),
        " ".join(_area(value.mean) for value in own["area"]) if "area" in own else "-",
    )


def _area(value: float) -> str:
    """Square metres as square decimetres, in four characters or so."""
    return f"{100 * value:.{1 if value < 0.1 else 0}f}"


def _plain(own: Spreads) -> dict[str, Any]:
    return {
        name: {f"{level:g}": vars(value) for level, value in zip(LEVELS, values, strict=True)}
        for name, values in own.items()
    }


def curves(table: Table, split: str, test: str) -> dict[str, tuple[list[Any], list[tuple[float, float]]]]:
    """For a figure: by name the curves of all seeds, and the points of the three levels (width, coverage)."""
    shown = {
        f"{PAPER.name}: {EBNN}": (PAPER.name, EBNN),
        f"{PAPER.name}: {CBDL}": (PAPER.name, CBDL),
        f"{OURS.name}: {EBNN}": (OURS.name, EBNN),
        f"{OURS.name}: {CALIBRATED}": (OURS.name, CALIBRATED),
        PHYSICS: (PHYSICS, EBNN),
    }
    panels = {}
    for name, (line_up, region) in shown.items():
        own = _spreads(table, split, test, line_up, region)
        lines = table.curves(split, test, line_up, region)
        if own and lines:
            points = [(w.mean, c.mean) for w, c in zip(own["width"], own["multi"], strict=True)]
            panels[name] = (lines, points)
    return panels


def of_widths(table: Table, split: str) -> Part:
    """Everyone at the width of the paper's EBNN; the figure has all widths."""
    others = {"MF CBDL": (PAPER.name, CBDL), "our EBNN": (OURS.name, EBNN), "ours": (OURS.name, CALIBRATED)}
    rows, numbers = [], {}
    for test in table.tests(split):
        for level in LEVELS:
            widths = table.regions(split, test, PAPER.name, EBNN, level, "width")
            held = {"MF EBNN": _known(table.regions(split, test, PAPER.name, EBNN, level, "multi"))}
            for name, (line_up, region) in others.items():
                pairs = table.at_widths(split, test, line_up, region, widths)
                held[name] = _known([multi for _, multi in pairs])
            mean = _known(widths)
            rows.append(
                (f"{test}, {level:g}", f"{1000 * mean.mean:.0f}", *(_share(v.mean) for v in held.values()))
            )
            numbers[f"{test}, {level:g}"] = {"width": vars(mean), **{k: vars(v) for k, v in held.items()}}
    return Part(
        name=f"widths-{split}",
        title=f"Multi-step coverage at equal width, {split} split",
        text="All regions scaled to the mean width of the region of that level that EBNN of the paper's members has.",
        header=("windows, level of EBNN", "width (mm)", "MF EBNN", *others),
        rows=tuple(rows),
        lessons=(),
        numbers=numbers,
        caption=f"Multi-step coverage against mean width, {split} split: curves at equal width, averaged over seeds; "
        "dots: the regions at 0.9, 0.95 and 0.99, whose widths differ from seed to seed.",
        draw=partial(
            figures.coverage, panels={test: curves(table, split, test) for test in table.tests(split)}
        ),
    )


def of_shapes(table: Table, split: str) -> Part | None:
    """Minimal regions beside unions; None if the run has none."""
    names = ("one", "area", "union_area", "ellipse_area")
    rows, numbers = [], {}
    for test, line_up, method in product(table.tests(split), table.line_ups(split), shapes.METHODS):
        own = [table.shape(split, test, line_up, method, name) for name in names]
        known = [value for value in own if value is not None]
        if len(known) < len(names):
            continue
        what = f"{test}, {line_up}: {method}"
        rows.append((what, _share(known[0].mean), *(f"{100 * value.mean:.2f}" for value in known[1:])))
        numbers[what] = {name: vars(value) for name, value in zip(names, known, strict=True)}
    if not rows:
        return None
    return Part(
        name=f"shapes-{split}",
        title=f"Shapes of a step's region, {split} split",
        text=f"Regions of a lower probability of {1 - shapes.ALPHA:g} for one step, {shapes.WINDOWS} windows, every "
        f"{shapes.EVERY}th step: how many steps they hold, their mean area in square decimetres, and that of a union "
        "of the members' ellipses and of the averaged Normal's ellipse that hold as many.",
        header=("windows, members: region", "one-step", "area", "union's", "ellipse's"),
        rows=tuple(rows),
        lessons=(),
        numbers=numbers,
    )


# --- scores -----------------------------------------------------------------------------------------------


def of_scores(table: Table, split: str) -> Part:
    """Errors and proper scores of all line-ups on all kinds of test windows."""
    rows, numbers = [], {}
    for test in table.tests(split):
        for line_up, density in product(table.line_ups(split), (PLAIN, CALIBRATED)):
            own = {name: table.score(split, test, line_up, name, density) for name in SCORES}
            if own["ade"] is None:
                continue
            texts = [_score(name, value) for name, value in own.items()]
            what = f"{test}, {line_up}{' calibrated' if density == CALIBRATED else ''}"
            rows.append((what, *texts))
            numbers[what] = {k: None if v is None else vars(v) for k, v in own.items()}
    return Part(
        name=f"scores-{split}",
        title=f"Scores, {split} split",
        text="Distances in centimetres, NLL in nats of a position (x, y); means over windows, steps and seeds, in "
        "brackets the standard deviation over seeds.",
        header=("windows, members", "ADE", "FDE", "minADE", "NLL", "CRPS", "energy"),
        rows=tuple(rows),
        lessons=(
            "ADE and FDE: mean and final distance of the members' mean; minADE: of the best member. The other scores "
            "are of the members' average; calibrated: with the power and the factor of scales that make windows "
            "likeliest which a member has not seen.",
        ),
        numbers=numbers,
    )


def _score(name: str, value: Spread | None) -> str:
    if value is None:
        return "-"
    if name == "nll":
        return f"{value.mean:.2f}"
    over_seeds = "" if name != "ade" or value.deviation is None else f" ({CENTI * value.deviation:.2f})"
    return f"{CENTI * value.mean:.2f}{over_seeds}"


# --- samples ----------------------------------------------------------------------------------------------


def of_samples(results: Sequence[Result], test: str) -> Part | None:
    """Predictions of the paper's line-up and of ours for the same windows; None if the run has none."""
    own = {
        result.line_up: result.samples[test]["windows"]
        for result in results
        if result.case.split == "blocked" and test in result.samples and result.line_up != VARIED.name
    }
    first = {name: own[name] for name in (PAPER.name, OURS.name) if own.get(name)}
    if not first:
        return None
    shown = [
        (line_up, tube, drawn)
        for line_up, drawn in first.items()
        for tube in drawn["tubes"]
        if not (line_up == OURS.name and tube == "CBDL")
    ]
    missed = {
        f"{line_up}: {tube}": [sum(not step for step in held) for held in drawn["tubes"][tube]["held"]]
        for line_up, tube, drawn in shown
    }
    where = "in-distribution" if test == IN else "race-line"
    return Part(
        name=f"samples-{where}",
        title=f"Three windows, {test}",
        text="The same windows for all: by how far the car departs from going on as it is, those at the "
        f"{', '.join(f'{share:.0%}' for share in SHARES)} quantiles. Steps that the region at 0.9 missed, of 60:",
        header=("members: region", *(f"window {i + 1}" for i in range(len(SHARES)))),
        rows=tuple((name, *map(str, counts)) for name, counts in missed.items()),
        lessons=(),
        numbers={name: list(counts) for name, counts in missed.items()},
        caption=f"Regions at 0.9 ({test}), every fourth step; green: where the car went, red: missed steps.",
        draw=partial(figures.samples, shown=shown),
    )


def of_frames(results: Sequence[Result], world: World) -> Part | None:
    """A car followed through a held-out stretch; None if the run has no such car."""
    for result in results:
        frames = result.samples.get(IN, {}).get("frames")
        if result.line_up == OURS.name and result.case.split == "blocked" and frames:
            missed = [sum(not step for step in held) for held in frames["tubes"]["calibrated"]["held"]]
            return Part(
                name="frames",
                title="A car on a stretch that no member has seen",
                text="Calibrated regions of ours at 0.9. Steps of the horizon that they missed, of 60:",
                header=("frame", *(str(i + 1) for i in range(len(missed)))),
                rows=(("missed", *map(str, missed)),),
                lessons=(),
                numbers={"missed": missed},
                caption="The car, the regions of the next 0.6 s (orange), where it went (green), missed steps (red).",
                draw=partial(figures.frames, frames=frames, track=world.track),
            )
    return None


# --- seconds and verdicts ---------------------------------------------------------------------------------


def of_speed(speed: Speed) -> Part:
    """Seconds of simulation and prediction."""
    rows: list[tuple[str, ...]] = [(f"simulation of {speed.traces} traces", cell(speed.simulation, 1))]
    for name, seconds in speed.prediction.items():
        rows.append((f"{speed.predictions:,} predictions with regions and areas, {name}", cell(seconds, 2)))
    return Part(
        name="seconds",
        title="Seconds",
        text="Of processor time, all threads together: the machine had other work. 60 steps, 4 members, 20 draws where "
        "members have them.",
        header=("what", "seconds"),
        rows=tuple(rows),
        lessons=(),
        numbers=speed.to_json(),
    )
