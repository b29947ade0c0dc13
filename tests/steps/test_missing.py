"""Conservative inference: the hull over all that missing inputs could be (de Cooman and Zaffalon)."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import cbdl
from cbdl.steps.missing import Choice, Completed, complete
from trials import trials

FEATURES = 6
"""Two numbers, a category of three levels, and a number that networks do not see."""
LEVELS = np.eye(3)
CHOICES = (
    Choice((0,), np.array([[-1.0], [0.0], [1.5]])),
    Choice((1,), np.array([[-2.0], [2.0]])),
    Choice((2, 3, 4), LEVELS),
    Choice((5,), np.array([[-9.0], [9.0]])),
)
SEEN, UNSEEN = CHOICES[:3], CHOICES[3]


class Blind(nn.Module):
    """A network that does not look at its last feature."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(FEATURES - 1, 8), nn.Tanh(), nn.Linear(8, outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x[:, :-1])
        return y


def rows(count: int) -> np.ndarray:
    source = np.random.default_rng(0)
    levels = LEVELS[source.integers(0, 3, count)]
    return np.concatenate([source.normal(size=(count, 2)), levels, source.normal(size=(count, 1))], axis=1)


X = rows(60)


def trained(kind: str) -> cbdl.CBDL:
    score = X[:, 0] - X[:, 1] + 2 * X[:, 2]
    likelihood: Any
    if kind == "classes":
        likelihood, y = cbdl.likelihoods.Categorical(lambda: Blind(3)), np.digitize(score, [-0.5, 1.0])
    else:
        likelihood, y = cbdl.likelihoods.Normal(lambda: Blind(1), scale=0.5), score
    priors = [cbdl.priors.Normal(0, 1), cbdl.priors.Normal(0, 3)]
    model = cbdl.CBDL(priors, [likelihood], cbdl.MeanField(epochs=20), dtype=torch.float64, verbose=False)
    return model.fit(X, y)


MODELS = {kind: trained(kind) for kind in ("classes", "line")}
kinds = st.sampled_from(sorted(MODELS))
numbers = st.integers(0, len(X) - 1)
gaps = st.sets(st.integers(0, 3), max_size=4)


def on_grid(row: int, places: tuple[int, ...] = (0, 0, 0, 0)) -> np.ndarray:
    """A row whose every input is one of those that it could be."""
    out = X[row].copy()
    for choice, place in zip(CHOICES, places, strict=True):
        out[list(choice.features)] = choice.values[place % len(choice.values)]
    return out


def without(x: np.ndarray, missing: set[int]) -> np.ndarray:
    out = x.copy()
    for j in missing:
        out[list(CHOICES[j].features)] = np.nan
    return out


def asked(kind: str, x: np.ndarray, most: int = 100) -> Any:
    return MODELS[kind].predict_missing(x[None], 8, choices=CHOICES, most=most)


def events(kind: str) -> list[Any]:
    """Events, as the kind of set takes them."""
    if kind == "classes":
        return [np.array(mask) for mask in itertools.product([False, True], repeat=3)]
    return [(low, low + width) for low in (-3.0, -1.0, 0.5) for width in (0.5, 3.0)]


SLACK = 1e-9
"""Sums over a few draws and classes in float64, whose order differs between batches."""


@trials(60)
@given(kinds, numbers, gaps)
def test_the_hull_holds_the_set_of_every_completion(kind, row, missing):
    x = without(X[row], missing)
    whole = asked(kind, x)
    options = [CHOICES[j].values for j in sorted(missing)]
    full = []
    for values in itertools.product(*options):
        full.append(x.copy())
        for j, value in zip(sorted(missing), values, strict=True):
            full[-1][list(CHOICES[j].features)] = value
    own = MODELS[kind].predict(np.array(full), 8)
    for event in events(kind):
        assert whole.lower_probability(event)[0] <= own.lower_probability(event).min() + SLACK
        assert whole.upper_probability(event)[0] >= own.upper_probability(event).max() - SLACK
    if kind == "classes":
        again = cbdl.CategoricalCredalSet(np.repeat(whole.probs, len(full), axis=0))
        assert all(again.contains(own.probs[:, j]).all() for j in range(own.num_extremes))
    assert whole.num_extremes == 2 * len(full)


@trials(60)
@given(kinds, numbers, st.tuples(*[st.integers(0, 2)] * 4), gaps, st.integers(0, 3))
def test_the_hull_never_gets_smaller_when_a_value_is_removed(kind, row, places, missing, removed):
    """One that is among those that it could be, where all combinations are answered."""
    x = on_grid(row, places)
    before, after = asked(kind, without(x, missing)), asked(kind, without(x, missing | {removed}))
    for event in events(kind):
        assert after.lower_probability(event) <= before.lower_probability(event) + SLACK
        assert after.upper_probability(event) >= before.upper_probability(event) - SLACK
    if kind == "classes":
        assert (after.region(0.1).mask >= before.region(0.1).mask).all()
        first, second = before.uncertainty(), after.uncertainty()
        # the total is known to its certificate, the least entropy is attained
        slack = first.gap + second.gap + SLACK
        assert second.total >= first.total - slack
        assert second.aleatoric <= first.aleatoric + SLACK


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_the_hull_may_get_smaller_where_the_value_is_none_of_the_choices_or_completions_are_sampled(kind):
    """The limits of the property above, as the module says them."""

    def shrinks(before: Any, after: Any) -> bool:
        return any(
            (after.upper_probability(e) < before.upper_probability(e) - 0.01).any() for e in events(kind)
        )

    assert any(shrinks(asked(kind, x), asked(kind, without(x, {0}))) for x in X), (
        "quantiles are not the value"
    )
    grid = [on_grid(i, (i % 3, i % 2, i % 3, 0)) for i in range(20)]
    fewer = [(asked(kind, without(x, {0, 1}), 6), asked(kind, without(x, {0, 1, 2}), 6)) for x in grid]
    assert any(shrinks(before, after) for before, after in fewer), "6 of 18 completions"


@trials(30)
@given(kinds, numbers)
def test_a_feature_that_the_network_ignores_costs_nothing(kind, row):
    own, hull = MODELS[kind].predict(X[row : row + 1], 8), asked(kind, without(X[row], {3}))
    assert hull.num_extremes == 2 * own.num_extremes
    for event in events(kind):
        np.testing.assert_allclose(hull.lower_probability(event), own.lower_probability(event), atol=SLACK)
        np.testing.assert_allclose(hull.upper_probability(event), own.upper_probability(event), atol=SLACK)
    first, second = own.uncertainty(), hull.uncertainty()
    slack = float(np.max(first.gap + second.gap + first.error + second.error)) + SLACK
    np.testing.assert_allclose(second.epistemic, first.epistemic, atol=slack)
    np.testing.assert_allclose(hull.region(0.1).measure, own.region(0.1).measure, rtol=1e-6)


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_rows_with_different_gaps_are_answered_as_if_alone(kind):
    gaps: list[set[int]] = [set(), {0}, {1, 2}, {0, 1, 2, 3}, set()]
    x = np.stack([without(X[i], g) for i, g in enumerate(gaps)])
    together = MODELS[kind].predict_missing(x, 8, choices=CHOICES, most=100)
    origin = together.origin
    assert isinstance(origin, Completed)
    assert origin.completions.tolist() == origin.possible.tolist() == [1, 3, 6, 36, 1]
    for i in range(len(x)):
        alone = asked(kind, x[i])
        for event in events(kind):
            np.testing.assert_allclose(
                together.lower_probability(event)[i], alone.lower_probability(event)[0], atol=SLACK
            )
    np.testing.assert_array_less(-1e-12, together.floor)
    part = together[3:]
    assert part.origin.completions.tolist() == [36, 1]


def test_without_gaps_it_is_predict():
    own, hull = (ask(X[:5], 8) for ask in (MODELS["classes"].predict, MODELS["classes"].predict_missing))
    np.testing.assert_allclose(own.probs, hull.probs, atol=SLACK)
    np.testing.assert_allclose(own.floor, hull.floor, atol=SLACK)
    assert own.members == hull.members


@trials(60)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=6), st.integers(1, 40))
def test_completions_are_all_combinations_or_a_balanced_sample(sizes, most):
    """Against the product of the standard library; of a sample, every value as often as any other."""
    choices = [Choice((j,), np.arange(size, dtype=float)[:, None]) for j, size in enumerate(sizes)]
    own = complete(np.full((1, len(sizes)), np.nan), choices, most)
    everything = set(itertools.product(*(range(size) for size in sizes)))
    assert own.possible[0] == len(everything)
    assert own.counts[0] == len(own.X) == min(most, len(everything))
    answered = {tuple(row) for row in own.X.tolist()}
    assert answered <= everything
    if len(everything) <= most:
        assert answered == everything
    for j, size in enumerate(sizes):
        often = np.bincount(own.X[:, j].astype(int), minlength=size)
        assert len(everything) <= most or often.max() - often.min() <= 1


def test_the_bound_is_stated_and_kept():
    hull = asked("classes", without(X[0], {0, 1, 2, 3}), most=10)
    assert (hull.origin.completions.tolist(), hull.origin.possible.tolist()) == ([10], [36])
    assert hull.num_extremes == 20


def test_numbers_could_be_quantiles_of_their_columns_and_a_saved_model_knows_them(tmp_path):
    y = (X[:, 0] > 0).astype(int)
    net = cbdl.likelihoods.Categorical(cbdl.nets.mlp(FEATURES, 2, (4,)))
    model = cbdl.CBDL([cbdl.priors.Normal()], [net], cbdl.MeanField(epochs=2), verbose=False).fit(X, y)
    gap = X[:1].copy()
    gap[0, 1] = np.nan
    hull = model.predict_missing(gap, 4)
    values = np.unique(np.quantile(X[:, 1], [0.025, 0.25, 0.5, 0.75, 0.975], method="lower"))
    full = np.repeat(X[:1], len(values), axis=0)
    full[:, 1] = values
    # the model is float32, and quantiles pass through its units
    np.testing.assert_allclose(hull.probs[0], model.predict(full, 4).probs[:, 0], atol=1e-5)
    model.save(tmp_path / "m")
    again = cbdl.load(tmp_path / "m").predict_missing(gap, 4)
    np.testing.assert_allclose(again.probs, hull.probs, atol=1e-6)
    copy = pickle.loads(pickle.dumps(model)).predict_missing(gap, 4)
    np.testing.assert_allclose(copy.probs, hull.probs, atol=1e-6)


def test_tensors_come_back_as_tensors():
    assert isinstance(MODELS["classes"].predict_missing(torch.from_numpy(X[:2]), 4).probs, torch.Tensor)


def test_missing_values_of_every_kind_are_missing():
    """A mask, the missing value of pandas and None are what nan is."""
    model = MODELS["classes"]
    gaps = np.array(X[:4])
    gaps[1, 0] = gaps[3, 2] = np.nan
    plain = model.predict_missing(gaps, 4, choices=CHOICES).probs
    for same in (
        np.ma.masked_invalid(gaps),
        pd.DataFrame(gaps).astype("Float64"),
        np.where(np.isnan(gaps), None, gaps),
    ):
        np.testing.assert_array_equal(model.predict_missing(same, 4, choices=CHOICES).probs, plain)
        with pytest.raises(ValueError, match=r"X\[1, 0\] is nan"):
            model.predict(same)


def test_what_cannot_be_completed_is_told():
    model, gap = MODELS["classes"], without(X[0], {0})[None]
    for arguments, said in (
        ({"X": gap, "choices": ()}, "nothing says what feature 0 could be"),
        ({"X": gap, "choices": [CHOICES[0], CHOICES[0]]}, "at most once"),
        ({"X": gap, "choices": [Choice((9,), np.ones((1, 1)))]}, "each of 0, ..., 5"),
        ({"X": gap, "choices": 3}, "choices is 3; give a list"),
        ({"X": gap, "choices": {0: [1.0]}}, "choices is {0: .*give a list"),
        ({"X": gap, "choices": [((0,), np.ones((1, 1)))]}, "choices is .*give a list"),
        ({"X": gap[0]}, r"one row is X.reshape\(1, -1\)"),
        ({"X": gap, "most": 0}, "most is 0"),
        ({"X": gap[:, :3]}, r"shape \(1, 3\)"),
    ):
        with pytest.raises(ValueError, match=said):
            model.predict_missing(**arguments)
    with pytest.raises(ValueError, match="must be finite"):
        Choice((0,), np.array([[np.nan]]))
    with pytest.raises(ValueError, match=r"give \(n, 2\)"):
        Choice((0, 1), np.ones((3, 1)))
    with pytest.raises(ValueError, match="nan"):
        model.predict(gap)
