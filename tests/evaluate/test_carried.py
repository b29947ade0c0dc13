"""Levels that briefly trained members needed, as levels of the members that stay."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import cbdl
from cbdl.credal import CredalSet
from cbdl.evaluate.carried import carried
from cbdl.evaluate.conformal import Conformity, conformity

ROWS = 40


def members(apart: float, scale: float, rows: int = ROWS) -> cbdl.NormalCredalSet:
    """Two Normals on either side of 0."""
    loc = np.broadcast_to([-apart, apart], (rows, 2))
    return cbdl.NormalCredalSet(loc, np.full((rows, 2), scale))


def at(*levels: float) -> Conformity:
    return Conformity(np.log1p(-np.array(levels)), np.ones(len(levels)))


def content(sets: CredalSet, level: float) -> float:
    return float(np.mean(np.asarray(sets.point().lower_probability(sets.region_at_level(level)))))


def level_after(needed: Conformity, without: CredalSet, whole: CredalSet) -> np.ndarray:
    return -np.expm1(carried(needed, without, whole, np.ones(ROWS)).log_survival)


def test_between_equal_sets_levels_stay_as_they_are() -> None:
    levels = (0.0, 0.3, 0.77, 0.97, 0.9999, 1 - 1e-12)
    np.testing.assert_allclose(level_after(at(*levels), members(1, 2), members(1, 2)), levels, atol=1e-12)


def test_one_normal_says_what_two_apart_said_at_the_level_of_their_quantiles() -> None:
    """The union of N(-d, s) and N(d, s) at a level L is +-(d + z s), and one Normal says L at the level L."""
    apart, scale, other = 0.6, 1.0, 1.3
    for level in (0.5, 0.8, 0.95, 0.99):
        end = apart + stats.norm.isf((1 - level) / 2) * scale
        said = stats.norm.cdf(end, apart, scale) - stats.norm.cdf(-end, apart, scale)
        [moved] = level_after(at(level), members(apart, scale), members(0, other))
        assert moved == pytest.approx(said, abs=1e-9)


@pytest.mark.parametrize("level", [0.6, 0.85, 0.93, 0.97, 0.995])
def test_regions_say_as_much_as_before_at_levels_in_between_too(level: float) -> None:
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=(2, ROWS, 3, 8)), np.exp(0.3 * rng.normal(size=(2, ROWS, 3, 8)))
    without = cbdl.MixtureCredalSet(2 * loc[0], scale[0])
    whole = cbdl.MixtureCredalSet(0.5 * loc[1], scale[1])
    [moved] = level_after(at(level), without, whole)
    before, unmoved, after = content(without, level), content(whole, level), content(whole, moved)
    assert abs(after - before) < min(0.002, abs(unmoved - before) / 5)


def test_order_is_kept_and_the_whole_space_stays_the_whole_space() -> None:
    needed = Conformity(np.array([-np.inf, -700.0, -20.0, -3.0, -0.1, 0.0]), np.ones(6))
    for without, whole in ((members(2, 1), members(0, 1)), (members(0, 1), members(2, 1))):
        logs = carried(needed, without, whole, np.ones(ROWS)).log_survival
        assert logs[0] == -np.inf
        assert (np.diff(logs) >= 0).all()
        assert (logs <= 0).all()


def test_rows_count_by_their_weights() -> None:
    """Rows of one kind have moved, of the other not; those that count nothing have no say."""
    still, moved = members(1, 1), members(0, 1)
    both = cbdl.NormalCredalSet(
        np.concatenate([still.loc[:20], moved.loc[:20]]), np.concatenate([still.scale[:20], moved.scale[:20]])
    )
    counts = np.repeat([1.0, 0.0], 20)
    same = carried(at(0.9), both, still, counts)
    np.testing.assert_allclose(same.log_survival, at(0.9).log_survival, rtol=1e-9)
    assert carried(at(0.9), both, still, np.ones(ROWS)).log_survival[0] > same.log_survival[0] + 0.1


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_levels_of_members_far_apart_cover_with_members_that_agree(alpha: float) -> None:
    """Where both centres are right about their outcomes, the promise is kept; the old levels do not keep it."""
    rng, n = np.random.default_rng(1), 4000
    off, one = 0.8 * rng.normal(size=(n, 4)), np.ones((n, 4))
    without, whole = cbdl.NormalCredalSet(off, one), cbdl.NormalCredalSet(0.1 * off, one)

    def outcomes(sets: cbdl.NormalCredalSet) -> np.ndarray:
        return np.asarray(sets.loc)[np.arange(n), rng.integers(4, size=n)] + rng.normal(size=n)

    needed, fresh = conformity(without, outcomes(without)), outcomes(whole)

    def covered(levels: Conformity) -> float:
        return float(levels.region(whole, alpha).contains(fresh).mean())

    error = 3 * np.sqrt(2 * alpha * (1 - alpha) / n)
    assert covered(needed) < 1 - alpha - error
    assert covered(carried(needed, without, whole, np.ones(n))) == pytest.approx(1 - alpha, abs=error)
