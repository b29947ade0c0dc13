"""Motion Prediction for Autonomous Racing: the paper's study on simulated F1TENTH cars.

tracks -> lines -> traces -> windows -> splits -> line-ups of members -> forecasts -> regions -> what they hold

`cbdl study racing --track FILE --profile cpu --out DIR`. What was measured is kept in DIR/runs, so that the same
command goes on after it was stopped.
"""

from collections.abc import Iterator

from cbdl.studies.goal import of_goals
from cbdl.studies.kept import Shelf
from cbdl.studies.part import Part
from cbdl.studies.racing import pages, verdicts
from cbdl.studies.racing.lines import LINES, Line, make_lines
from cbdl.studies.racing.plans import PLANS, SPLITS
from cbdl.studies.racing.runs import IN, MEASURES, RACE, results
from cbdl.studies.racing.speed import Speed, measured_speed
from cbdl.studies.racing.speeds import Pace
from cbdl.studies.racing.splits import Split, blocked_split, held_out_stretches, line_held_out, random_split
from cbdl.studies.racing.tables import Table
from cbdl.studies.racing.traces import Trace, simulate
from cbdl.studies.racing.tracks import RaceLine, Track, embedded_track, load_race_line, load_track, make_track
from cbdl.studies.racing.vehicle import Vehicle
from cbdl.studies.racing.windows import Windows, cut_windows, on_map
from cbdl.studies.racing.worlds import World, content, open_world
from cbdl.studies.study import Context, Study
from cbdl.studies.tables.contestant import code

__all__ = [
    "LINES",
    "Line",
    "Pace",
    "RaceLine",
    "Split",
    "Trace",
    "Track",
    "Vehicle",
    "Windows",
    "blocked_split",
    "cut_windows",
    "embedded_track",
    "held_out_stretches",
    "line_held_out",
    "load_race_line",
    "load_track",
    "make_lines",
    "make_track",
    "on_map",
    "random_split",
    "simulate",
]


TRACK, SECONDS = "track", "seconds"
"""What a run may be confined to beside the splits: the map, and how long simulation and predictions take."""


def parts(context: Context) -> Iterator[Part]:
    """The track; then, as soon as all is measured, coverage and scores, samples, seconds, claims and goals."""
    plan, smoke = PLANS[context.profile], context.profile == "smoke"
    world = open_world(context.track, plan.length)
    context.note(f"\n{world.track.name}; the other track is {world.other_track.name}")
    yield pages.of_track(world)
    if context.only and not any(map(context.wants, SPLITS)):
        if context.wants(SECONDS):
            yield pages.of_speed(measured_speed(world))
        return
    done = results(context, world, plan)
    table = Table(done)
    for split in table.splits:
        for test in table.tests(split):
            yield pages.of_coverage(table, split, test)
        yield pages.of_widths(table, split)
        yield pages.of_scores(table, split)
    some = [*(pages.of_shapes(table, split) for split in table.splits)]
    some += [*(pages.of_samples(done, test) for test in (IN, RACE)), pages.of_frames(done, world)]
    yield from (part for part in some if part is not None)
    speed = None if smoke else _speed(context, world)  # a moment's run has no time worth telling
    if speed is not None:
        yield pages.of_speed(speed)
    yield of_goals(
        list(verdicts.claims(table)),
        "Of the mean-field line-up (MF), means over seeds, the least of the three levels: by how much CBDL covers more "
        "than EBNN; how much coverage is lost on the race line, by EBNN or CBDL; and by how much CBDL covers more when "
        "it is deflated to EBNN's mean width.",
        "claims",
        "The paper's claims, and what is left of them at equal width",
    )
    yield of_goals(
        list(verdicts.goals(table, speed)),
        "Of ours with calibrated regions, blocked split, means over seeds. At EBNN's width: by how much the multi-step "
        "coverage of ours is higher when its tubes are scaled to the mean width of EBNN's regions of that level.",
    )


def _speed(context: Context, world: World) -> Speed:
    """Seconds, from what is kept or measured now."""
    shelf = Shelf(None if context.folder is None else context.folder / "runs")
    key = {
        "table": world.track.name,
        "contestant": "seconds",
        "profile": context.profile,
        "tracks": content(world.track),
        "code": code(*MEASURES),
    }
    rows, _ = shelf.rows(key, lambda: measured_speed(world).to_json())
    return Speed(**rows)


STUDY = Study(
    "racing",
    "Motion prediction for autonomous racing",
    ("smoke", "cpu", "paper"),
    parts,
    choices=(TRACK, SECONDS, *SPLITS),
    on_a_track=True,
    repeated=True,
)
