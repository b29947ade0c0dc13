"""Motion Prediction for Autonomous Racing: the paper's study on simulated F1TENTH cars.

tracks -> lines -> traces -> windows -> splits
"""

from cbdl.studies.racing.lines import LINES, Line, make_lines
from cbdl.studies.racing.speeds import Pace
from cbdl.studies.racing.splits import Split, blocked_split, held_out_stretches, line_held_out, random_split
from cbdl.studies.racing.traces import Trace, simulate
from cbdl.studies.racing.tracks import RaceLine, Track, embedded_track, load_race_line, load_track, make_track
from cbdl.studies.racing.vehicle import Vehicle
from cbdl.studies.racing.windows import Windows, cut_windows, on_map

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
