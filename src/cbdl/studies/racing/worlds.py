"""Worlds: a track with its lines, the windows of 24 cars on it, and windows of cars that behave otherwise.

Nothing is simulated before it is asked for. The track is the user's, or Spielberg where `CBDL_DATA` has it, or the
embedded one.
"""

import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from cbdl.studies.racing.controllers import CONTROLLERS
from cbdl.studies.racing.curves import FloatArray
from cbdl.studies.racing.lines import Line, make_lines
from cbdl.studies.racing.traces import DURATION, GAINS, Trace, simulate
from cbdl.studies.racing.tracks import Track, embedded_track, load_track
from cbdl.studies.racing.vehicle import Vehicle
from cbdl.studies.racing.windows import Windows, cut_windows
from cbdl.tables.files import UsageError

FASTER = (1.1, 1.2)
"""Speed gains that no training window has."""
SLIPPERY = 0.7
"""Friction, 1.05 in training."""
EMBEDDED = "embedded"


@dataclass(frozen=True)
class Length:
    """How long cars are simulated: so many seconds, or laps of the slowest if these take longer; their speed gains."""

    traces: float = DURATION
    shifts: float = 60.0
    gains: tuple[float, ...] = GAINS
    laps: float = 1.2
    """Of traces: every place of a track of any length is seen."""
    shift_laps: float = 0.6
    """Of shifts: more than half a lap meets a stretch that is held out for tests."""


class World:
    """What the study is about: `windows` on the track, and three kinds of others."""

    def __init__(self, track: Track, other: Track, length: Length) -> None:
        self.track, self.other_track, self.length = track, other, length

    @cached_property
    def lines(self) -> dict[str, Line]:
        """The four lines of the track."""
        return make_lines(self.track)

    @property
    def duration(self) -> float:
        """Seconds of a trace."""
        return max(self.length.traces, self.length.laps * self._slowest_lap)

    @property
    def _shift_duration(self) -> float:
        return max(self.length.shifts, self.length.shift_laps * self._slowest_lap)

    @property
    def _slowest_lap(self) -> float:
        return max(line.lap_time for line in self.lines.values()) / min(self.length.gains)

    @cached_property
    def traces(self) -> list[Trace]:
        """Every driver on every line with every gain."""
        return simulate(self.track, self.lines, gains=self.length.gains, duration=self.duration)

    @cached_property
    def windows(self) -> Windows:
        """Their windows."""
        return cut_windows(self.track, self.traces)

    @cached_property
    def faster(self) -> Windows:
        """Cars that are driven faster than any in `windows`."""
        traces = simulate(self.track, self.lines, gains=FASTER, duration=self._shift_duration)
        return cut_windows(self.track, traces)

    @cached_property
    def slippery(self) -> Windows:
        """The same cars on a floor with less friction, at speeds that do not know of it."""
        vehicle = replace(Vehicle(), mu=SLIPPERY)
        traces = simulate(
            self.track, self.lines, gains=self.length.gains, vehicle=vehicle, duration=self._shift_duration
        )
        return cut_windows(self.track, traces)

    @cached_property
    def elsewhere(self) -> Windows:
        """The same drivers on the other track."""
        traces = simulate(self.other_track, gains=self.length.gains, duration=self.length.shifts)
        return cut_windows(self.other_track, traces)

    @property
    def cars(self) -> int:
        """How many traces there are."""
        return len(CONTROLLERS) * 4 * len(self.length.gains)


def open_world(name: str | None, length: Length) -> World:
    """The world on the track that the user names, or on the study's own."""
    try:
        track = find_track(name)
        other = _other(track)
        make_lines(track)  # says what is wrong with a track before anything is trained
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from error
    return World(track, other, length)


def find_track(name: str | None) -> Track:
    """A track by file, by folder, by its name in `CBDL_DATA`, or embedded; None: the paper's, if it is there."""
    if name is None:
        public = _public("Spielberg")
        return embedded_track() if public is None else load_track(public)
    if name == EMBEDDED:
        return embedded_track()
    public = _public(name)
    if Path(name).exists() or public is None:
        if not Path(name).exists():
            raise UsageError(
                f"there is no track {name!r}; give a centre-line CSV file (x_m, y_m, w_tr_right_m, w_tr_left_m), the "
                "folder that holds it, the name of a folder in $CBDL_DATA/tracks, or embedded"
            )
        return load_track(name)
    return load_track(public)


def _public(name: str) -> Path | None:
    folder = Path(os.environ.get("CBDL_DATA", "")) / "tracks" / name
    return folder if "CBDL_DATA" in os.environ and folder.is_dir() else None


def _other(track: Track) -> Track:
    """Silverstone for Spielberg, the second embedded track for the first, and that one for all others."""
    public = _public("Silverstone") if track.name == "Spielberg" else None
    if public is not None:
        return load_track(public)
    return embedded_track(second=track.name == EMBEDDED)


def content(track: Track) -> list[float]:
    """A few numbers that tell tracks apart, whatever their names."""
    numbers: FloatArray = np.concatenate(
        [track.centre.xy.sum(axis=0), [track.length, np.square(track.centre.curvature).sum()]]
    )
    widths = [float(track.left.sum()), float(track.right.sum())]
    return [round(x, 6) for x in [*numbers.tolist(), *widths]]
