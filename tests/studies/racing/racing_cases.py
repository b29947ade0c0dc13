"""Small tracks and traces that the tests of the racing study share, and where the public tracks are."""

import os
from pathlib import Path

import numpy as np
import pytest

from cbdl.studies.racing import Trace, make_track
from cbdl.studies.racing.curves import closed_curve

TRACKS = Path(os.environ.get("CBDL_DATA", "")) / "tracks"


def needs_public_tracks(test):
    """Files that are GPL and not part of the project: with `make test-slow`, where they are."""
    there = pytest.mark.skipif(
        "CBDL_DATA" not in os.environ or not TRACKS.is_dir(),
        reason="CBDL_DATA does not name a folder with tracks/",
    )
    return pytest.mark.slow(there(test))


def circle(radius, count=None, clockwise=False):
    count = count or int(2.0 * np.pi * radius / 0.4)
    angle = 2.0 * np.pi * np.arange(count) / count
    points = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return points * [1.0, -1.0] if clockwise else points


def circle_track(radius, width=1.1, clockwise=False):
    points = circle(radius, clockwise=clockwise)
    return make_track("circle", points, np.full(len(points), width), np.full(len(points), width))


def wavy_points(seed=0, length=60.0):
    """A smooth random loop, a few corners long."""
    rng = np.random.default_rng(seed)
    angle = 2.0 * np.pi * np.arange(600) / 600
    radius = 1.0 + sum(rng.normal() * 0.12 * np.cos(k * angle + rng.uniform(0.0, 6.0)) for k in (2, 3, 4, 5))
    loop = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    curve = closed_curve(loop, 600)
    return closed_curve(loop * (length / curve.length), int(length / 0.4)).xy


def wavy_track(seed=0, length=60.0, width=1.1):
    points = wavy_points(seed, length)
    return make_track("wavy", points, np.full(len(points), width), np.full(len(points), width))


def stadium_points(straight=20.0, radius=0.7, step=0.4):
    """Two straights and two hairpins."""
    along = np.arange(0.0, straight, step)
    bend = np.arange(0.0, np.pi, step / radius)
    side = np.stack([along, np.zeros_like(along)], axis=1)
    end = np.stack([straight + radius * np.sin(bend), radius - radius * np.cos(bend)], axis=1)
    half = np.concatenate([side, end])
    return np.concatenate([half, [straight, 2.0 * radius] - half])


def circling(
    track, speed=5.0, steps=400, laps=0.0, line="centre", gain=1.0, controller="stanley", on_track=True
):
    """A trace that was not simulated: a car that runs along the centre line at constant speed."""
    s = laps * track.length + 0.01 * speed * np.arange(steps)
    centre = track.centre
    x, y = (centre.at(centre.xy[:, i], s) for i in range(2))
    turns = np.floor(s / track.length) * np.round((centre.heading[-1] - centre.heading[0]) / (2.0 * np.pi))
    heading = np.interp(s % track.length, centre.s, centre.heading) + 2.0 * np.pi * turns
    zero = np.zeros(steps)
    states = np.stack([x, y, zero, np.full(steps, speed), heading, zero, zero], axis=1)
    return Trace(controller, line, gain, states, s, zero, on_track, laps=0.01 * speed * steps / track.length)
