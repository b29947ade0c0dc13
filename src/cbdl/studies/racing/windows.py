"""Windows: what was seen of a car, where it is on the track, and what it does next.

A window is the paper's pair (O, F): `history` positions up to the present and the `horizon` positions after it, each
(x, y, heading, speed), with a context C: how far the car is from the centre line, and the curvature of the track ahead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cbdl.studies.racing.curves import FloatArray, IntArray
from cbdl.studies.racing.traces import DT, Trace
from cbdl.studies.racing.tracks import Track

Frame = Literal["ego", "map"]

HISTORY, HORIZON, STRIDE = 10, 60, 10
CURVATURES_AT = tuple(0.5 * i for i in range(12))
"""Metres ahead of the car at which the context holds the curvature of the centre line."""


@dataclass(frozen=True)
class Windows:
    """W windows of a track. In the ego frame the car is at the origin at present, and looks along x."""

    history: FloatArray  # (W, history, 4): x, y, heading, speed; the last one is the present
    future: FloatArray  # (W, horizon, 4)
    context: FloatArray  # (W, 1 + curvatures): metres to the left of the centre line, curvatures ahead
    pose: FloatArray  # (W, 3): x, y, heading on the map at present
    stretch: (
        FloatArray  # (W, 2): from where to where on the centre line, in metres, counting on from lap to lap
    )
    trace: IntArray  # (W,): which trace
    step: IntArray  # (W,): which step of the trace is the present
    controller: NDArray[np.str_]  # (W,)
    line: NDArray[np.str_]  # (W,)
    gain: FloatArray  # (W,)
    track: str
    track_length: float

    def __len__(self) -> int:
        return len(self.trace)

    def __getitem__(self, rows: slice | IntArray | NDArray[np.bool_]) -> "Windows":
        """Some of the windows."""
        arrays: dict[str, Any] = {k: v[rows] for k, v in vars(self).items() if isinstance(v, np.ndarray)}
        return replace(self, **arrays)


def cut_windows(
    track: Track,
    traces: Sequence[Trace],
    history: int = HISTORY,
    horizon: int = HORIZON,
    stride: int = STRIDE,
    frame: Frame = "ego",
) -> Windows:
    """All windows of the traces whose presents are `stride` steps apart.

    history counts the present: 10 positions reach 0.09 s back. A trace that ended early because its car left the track
    gives the windows it has, if any.
    """
    _check(traces, history, horizon, stride, frame)
    span = history + horizon
    lengths = np.array([len(trace.s) for trace in traces])
    begins = [np.arange(0, length - span + 1, stride) for length in lengths]
    owner = np.repeat(np.arange(len(traces)), [len(begin) for begin in begins])
    begin = np.concatenate(begins)
    # The rows of each window in the array of all traces.
    rows = ((np.cumsum(lengths) - lengths)[owner] + begin)[:, None] + np.arange(span)
    present = rows[:, history - 1]
    positions = np.concatenate([trace.states[:, [0, 1, 4, 3]] for trace in traces])
    s = np.concatenate([trace.s for trace in traces])
    left = np.concatenate([trace.left for trace in traces])
    ahead = s[present, None] + np.array(CURVATURES_AT)
    moves = _framed(positions[rows], positions[present, None, :3], frame)
    return Windows(
        history=moves[:, :history],
        future=moves[:, history:],
        context=np.column_stack([left[present], track.centre.at(track.centre.curvature, ahead)]),
        pose=positions[present, :3],
        stretch=np.stack([s[rows].min(axis=1), s[rows].max(axis=1)], axis=1),
        trace=owner,
        step=begin + history - 1,
        controller=np.array([trace.controller for trace in traces])[owner],
        line=np.array([trace.line for trace in traces])[owner],
        gain=np.array([trace.gain for trace in traces])[owner],
        track=track.name,
        track_length=track.length,
    )


def _framed(positions: FloatArray, pose: FloatArray, frame: Frame) -> FloatArray:
    """Positions (W, span, 4) seen from poses (W, 1, 3), or on the map with headings of the present in [-pi, pi)."""
    heading = pose[..., 2]
    if frame == "map":
        turns = np.floor((heading + np.pi) / (2.0 * np.pi))
        positions[..., 2] -= 2.0 * np.pi * turns
        return positions
    dx, dy = positions[..., 0] - pose[..., 0], positions[..., 1] - pose[..., 1]
    cos, sin = np.cos(heading), np.sin(heading)
    turned = [dx * cos + dy * sin, dy * cos - dx * sin, positions[..., 2] - heading, positions[..., 3]]
    return np.stack(turned, axis=-1)


def on_map(positions: FloatArray, pose: FloatArray) -> FloatArray:
    """Positions (W, ..., 2) in the ego frame, back on the map; pose (W, 3)."""
    x, y, heading = (pose[:, i].reshape(-1, *[1] * (positions.ndim - 2)) for i in range(3))
    ahead, left = positions[..., 0], positions[..., 1]
    cos, sin = np.cos(heading), np.sin(heading)
    return np.stack([x + ahead * cos - left * sin, y + ahead * sin + left * cos], axis=-1)


def mirrored(windows: Windows) -> Windows:
    """The same windows with left and right exchanged, in the ego frame; a car and its drivers know no difference.

    Poses and places stay: the mirrored track is not on the map.
    """
    sides = np.array([1.0, -1.0, -1.0, 1.0])  # y and heading change their sign
    return replace(
        windows,
        history=windows.history * sides,
        future=windows.future * sides,
        context=-windows.context,
    )


def joined(first: Windows, second: Windows) -> Windows:
    """The windows of both, one after the other."""
    if first.track != second.track:
        raise ValueError(f"windows of {first.track} and of {second.track} do not go together")
    arrays: dict[str, Any] = {
        name: np.concatenate([value, getattr(second, name)])
        for name, value in vars(first).items()
        if isinstance(value, np.ndarray)
    }
    return replace(first, **arrays)


def _check(traces: Sequence[Trace], history: int, horizon: int, stride: int, frame: str) -> None:
    for name, value in (("history", history), ("horizon", horizon), ("stride", stride)):
        if value < 1 or value != int(value):
            raise ValueError(f"{name}={value}: give a whole number of steps, at least 1")
    if frame not in ("ego", "map"):
        raise ValueError(f"frame={frame!r}: give 'ego' or 'map'")
    span = history + horizon
    lengths = [len(trace.s) for trace in traces]
    for trace, length in zip(traces, lengths, strict=True):
        if trace.on_track and length < span:
            raise ValueError(
                f"horizon={horizon} with history={history} spans {span} steps ({span * DT:.2f} s), but the trace "
                f"({trace.name}) has {length} ({length * DT:.2f} s); shorten the horizon or simulate for longer"
            )
    if max(lengths, default=0) < span:
        raise ValueError(
            f"none of the {len(traces)} traces is as long as a window ({span} steps): all cars left the track at once; "
            "lower the gains, or check the track"
        )
