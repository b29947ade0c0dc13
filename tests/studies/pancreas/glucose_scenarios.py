"""Days of insulin and meals for which the reference trajectories are kept: plain functions, the same on both sides.

A day is (initial glucose or None, insulin in multiples of basal per minute, grams of meals that begin in a minute).
"""

import numpy as np

MINUTES = 1440
EVERY = 15
"""The reference keeps one value in so many minutes."""


def fasting():
    """Basal insulin, no meals, from 180 mg/dL."""
    return 180.0, np.ones(MINUTES), np.zeros(MINUTES)


def doses():
    """No meals; insulin switches every half hour between nothing and two and a half times basal."""
    levels = [1.0, 0.0, 2.5, 0.5, 1.5, 0.0, 2.0, 1.0, 0.25, 1.75, 0.0, 1.0]
    return 150.0, np.repeat(np.tile(levels, 4), MINUTES // 48), np.zeros(MINUTES)


def meals():
    """Three meals and a snack with boluses, at each patient's basal glucose."""
    insulin, food = np.ones(MINUTES), np.zeros(MINUTES)
    for minute, grams in ((420, 45.0), (720, 70.0), (960, 12.5), (1110, 80.0)):
        food[minute] = grams
        insulin[minute : minute + 5] += grams
    return None, insulin, food


def stress():
    """Huge overlapping meals, hours without insulin, then a large bolus."""
    insulin, food = np.ones(MINUTES), np.zeros(MINUTES)
    insulin[180:480] = 0.0
    insulin[600:603] = 100.0
    for minute, grams in ((60, 150.0), (75, 60.0), (100, 3.3), (240, 100.0), (420, 7.0), (700, 120.0)):
        food[minute] = grams
    return 120.0, insulin, food


def overdose():
    """Six times basal all day, a meal late: glucose comes down to nothing."""
    insulin, food = np.full(MINUTES, 6.0), np.zeros(MINUTES)
    food[1200] = 60.0
    return 150.0, insulin, food


SCENARIOS = {f.__name__: f for f in (fasting, doses, meals, stress, overdose)}
