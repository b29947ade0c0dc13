"""Traces: cars stay on the track and on their lines, alone as in the batch, and the servo hears late."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from racing_cases import TRACKS, circle_track, needs_public_tracks, wavy_track

from cbdl.studies.racing import Vehicle, cut_windows, embedded_track, load_track, make_lines, simulate
from cbdl.studies.racing.controllers import CONTROLLERS

CAR = Vehicle()


@pytest.fixture(scope="module")
def lap():
    """A lap of the embedded track by every driver on every line, at full speed."""
    track = embedded_track()
    lines = make_lines(track)
    return track, lines, simulate(track, lines, gains=(1.0,), duration=50.0)


def test_every_car_stays_on_the_track_and_near_its_line(lap):
    _, lines, traces = lap
    assert len(traces) == 8
    for trace in traces:
        assert trace.on_track
        assert trace.states.shape == (5000, 7)
        assert trace.laps > 0.9
        assert (np.diff(trace.s) > 0.0).all()
        assert np.isfinite(trace.states).all()
        curve = lines[trace.line].curve
        gap = np.hypot(*(trace.states[::50, None, :2] - curve.xy).transpose(2, 0, 1)).min(axis=1)
        assert gap.max() < 0.3
        assert gap.mean() < 0.08


def test_the_place_on_the_track_is_that_of_the_position(lap):
    track, _, traces = lap
    centre = track.centre
    for trace in traces[::3]:
        s, left = trace.s[::100], trace.left[::100]
        heading = np.interp(s % track.length, centre.s, centre.heading)
        x, y = (centre.at(centre.xy[:, i], s) for i in range(2))
        place = np.stack([x - left * np.sin(heading), y + left * np.cos(heading)], axis=1)
        inside = s % track.length < centre.s[-1]
        np.testing.assert_allclose(place[inside], trace.states[::100, :2][inside], atol=0.02)


def test_speeds_are_those_of_the_line_times_the_gain():
    track = wavy_track(length=80.0)
    lines = make_lines(track, ("race",))
    for trace in simulate(track, lines, gains=(0.6, 0.9), duration=25.0):
        index = [
            np.argmin(((lines["race"].curve.xy - p) ** 2).sum(axis=1)) for p in trace.states[200::100, :2]
        ]
        np.testing.assert_allclose(
            trace.states[200::100, 3], trace.gain * lines["race"].speed[index], atol=0.5
        )


def test_a_car_drives_alone_as_in_the_batch():
    track = wavy_track(length=80.0)
    lines = make_lines(track)
    together = simulate(track, lines, gains=(0.75, 1.0), duration=8.0)
    for i in (3, 12):
        like = together[i]
        alone = simulate(
            track,
            {like.line: lines[like.line]},
            {like.controller: CONTROLLERS[like.controller]},
            gains=(like.gain,),
            duration=8.0,
        )
        np.testing.assert_allclose(alone[0].states, like.states, atol=1e-8)


@dataclass(frozen=True)
class Turn:
    """Wishes a constant steering angle."""

    angle: float = 0.1

    def tracked(self, car):
        return 0.0

    def steering(self, x, y, state, index, route, car):
        return np.full_like(x, self.angle)


def test_the_servo_hears_a_wish_two_steps_late_and_turns_at_its_rate():
    lines = make_lines(circle_track(50.0), ("centre",))
    trace = simulate(circle_track(50.0), lines, {"turn": Turn(0.1)}, gains=(0.2,), duration=0.3)[0]
    angle = trace.states[:, 2]
    np.testing.assert_allclose(
        angle[:3], angle[0], atol=1e-12
    )  # wishes of steps 0 and 1 are heard at 2 and 3
    np.testing.assert_allclose(np.diff(angle)[2:4], 3.2 * 0.01, rtol=1e-9)
    assert angle[-1] == pytest.approx(0.1)


def test_a_car_that_leaves_the_track_ends_its_trace_there():
    track = circle_track(12.0)
    lines = make_lines(track, ("centre",))
    traces = simulate(track, lines, {"straight": Turn(0.0), **CONTROLLERS}, gains=(1.0,), duration=5.0)
    assert [trace.on_track for trace in traces] == [False, True, True]
    out = traces[0]
    assert 20 < len(out.s) < 200
    room = 1.1 - 0.5 * CAR.width
    assert room - 0.1 < np.abs(out.left).max() <= room
    assert len(out.states) == len(out.s) == len(out.left)


def test_less_friction_is_another_trace():
    track = wavy_track(length=80.0)
    lines = make_lines(track, ("centre",))
    dry, wet = (
        simulate(track, lines, gains=(0.8,), vehicle=replace(CAR, mu=mu), duration=4.0)[0]
        for mu in (1.0489, 0.8)
    )
    assert np.abs(wet.states[:, 6]).max() > 1.1 * np.abs(dry.states[:, 6]).max()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"gains": ()}, "gains="),
        ({"gains": (0.0,)}, "gains="),
        ({"gains": (float("nan"),)}, "gains="),
        ({"duration": 0.0}, "duration="),
        ({"duration": float("nan")}, "duration="),
        ({"lines": {}}, r"lines=\[\]"),
        ({"controllers": {}}, r"controllers=\[\]"),
    ],
)
def test_wrong_wishes_are_refused(wrong, message):
    track = circle_track(5.0)
    arguments = {"lines": make_lines(track, ("centre",)), **wrong}
    with pytest.raises(ValueError, match=message):
        simulate(track, **arguments)


@needs_public_tracks
@pytest.mark.slow
@pytest.mark.parametrize("name", ["Spielberg", "Silverstone"])
def test_all_24_cars_stay_on_public_tracks_and_give_the_papers_number_of_windows(name):
    track = load_track(TRACKS / name)
    traces = simulate(track)
    assert len(traces) == 24
    assert all(trace.on_track for trace in traces)
    assert len(cut_windows(track, traces)) == pytest.approx(43_358, rel=0.02)
