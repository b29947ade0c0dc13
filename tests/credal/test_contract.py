"""The contract of `CredalSet`: every kind of set goes through the same checks, and one that a newcomer wrote."""

import functools
import inspect
import pickle

import numpy as np
import pytest
import torch
from kinds import KINDS, BernoulliCredalSet

import cbdl
from cbdl.credal import CredalSet
from cbdl.credal.base import Uncertainty

ROUNDING = {"rtol": 1e-14, "atol": 1e-15}
"""The same few additions in another shape."""

every_kind = pytest.mark.parametrize("kind", KINDS, ids=repr)


@functools.cache
def made(kind, batch, given="numpy"):
    return kind.make(batch, given)


@functools.cache
def answers(kind, cs):
    """Every answer that is an array, by name: (array, shape behind the batch; None where it may vary)."""
    m, batch = cs.num_extremes, cs.batch_shape
    y = kind.outcome(batch)
    u, region, level = cs.uncertainty(), cs.region(0.1), cs.region_at_level(0.5)
    weights = np.linspace(1, 2, m) / np.linspace(1, 2, m).sum()
    bounds = cs.entropy_bounds()
    found = {
        "lower_probability": (cs.lower_probability(kind.event), ()),
        "upper_probability": (cs.upper_probability(kind.event), ()),
        "lower_expectation": (cs.lower_expectation(kind.gamble), ()),
        "upper_expectation": (cs.upper_expectation(kind.gamble), ()),
        "mean": (cs.mean(), (m, *kind.event_shape)),
        "entropies": (cs.entropies(), (m,)),
        "lower_entropy": (cs.lower_entropy(), ()),
        "upper_entropy": (cs.upper_entropy(), ()),
        "upper_entropy weights": (cs.upper_entropy(certificate=True).weights, (m,)),
        "entropy_bounds": (bounds[0], ()),
        "entropy_bounds upper": (bounds[1], ()),
        "abstain": (cs.abstain(0.5), ()),
        "level": (cs.level(y), ()),
        "log_survival": (cs.log_survival(y), ()),
        "decide": (cs.decide("maximin"), None),
        "decide utility": (cs.decide("maximality", [kind.gamble, lambda y: -kind.gamble(y)]), (2,)),
        "decide single": (cs.decide("maximality", [kind.gamble, kind.gamble], single=True), ()),
        "extremes": (cs.extremes(), (m,)),
    }
    for name in Uncertainty.__dataclass_fields__:
        found[f"uncertainty {name}"] = (getattr(u, name), ())
    for name, r in (("region", region), ("region_at_level", level)):
        found |= {
            f"{name} {f}": (getattr(r, f), ()) for f in ("measure", "lower_probability", "upper_probability")
        }
        found[f"{name} contains"] = (r.contains(y), ())
        found |= {f"{name} hull {i}": (end, kind.hull_shape) for i, end in enumerate(r.hull())}
    if kind.finite and kind.name != "newcomer":
        found["generalized_hartley"] = (cs.generalized_hartley(), ())
    if kind.name != "diagonal":  # the mixture of Normals in R^d is no set of the kind
        one = cs.point(weights)
        found |= {"point": (one.mean(), (1, *kind.event_shape)), "contains": (cs.contains(one), ())}
        found["distance"] = (cs.distance(one, "tv"), ())
    return found


@every_kind
@pytest.mark.parametrize(("batch", "given"), [((), "torch"), ((3,), "numpy"), ((2, 2), "torch")])
def test_answers_have_the_shape_of_the_batch_and_the_kind_of_array_that_was_given(kind, batch, given):
    cs = made(kind, batch, given)
    assert (cs.batch_shape, cs.num_extremes) == (batch, 3)
    for name, (value, behind) in answers(kind, cs).items():
        assert isinstance(value, torch.Tensor if given == "torch" else np.ndarray | np.generic), name
        assert tuple(value.shape[: len(batch)]) == batch, name
        assert behind is None or tuple(value.shape) == (*batch, *behind), name


@every_kind
def test_nothing_of_the_contract_is_left_out_here(kind):
    checked = {name.split()[0] for name in answers(kind, made(kind, (3,)))}
    elsewhere = {"average", "center", "reduce", "point", "contains", "distance", "generalized_hartley"}
    elsewhere |= {
        "batch_shape",
        "num_extremes",
        "members",
        "origin",
        "with_origin",
        "floor",
        "noise",
        "region",
    }
    elsewhere |= {"region_at_level", "uncertainty", "decomposition", "labels", "with_labels", "to_frame"}
    public = {name for name, _ in inspect.getmembers(CredalSet) if not name.startswith("_")}
    assert public <= checked | elsewhere


@every_kind
def test_a_slice_answers_as_the_batch_does(kind):
    cs = made(kind, (3,))
    whole, one = answers(kind, cs), answers(kind, cs[1])
    y = kind.outcome((3,))
    for name, (value, _) in whole.items():
        if name in ("level", "log_survival") or name.endswith("contains"):
            continue  # these are asked about other outcomes
        if name == "decide single":
            continue  # a choice by position
        expected, answer = np.asarray(value)[1], np.asarray(one[name][0])
        if expected.ndim:  # lists padded to the longest of the batch
            expected = expected[: answer.shape[0]]
        # The same computation on a slice: only the order of sums may differ, a little more where there is an optimum.
        # A maximum is flat: sums of 4,000 nodes know it to 1e-12, and weights where it has curvature 0.1 to 4e-6;
        # what bounds it depends on the weights to first order.
        slack = 1e-5 if name in ("upper_entropy weights", "uncertainty gap", "uncertainty error") else 1e-9
        if name in ("upper_entropy", "uncertainty total", "uncertainty epistemic"):
            slack = max(
                slack, 1e-3 * float(np.asarray(whole["uncertainty gap"][0])[1])
            )  # weights are known to that
        np.testing.assert_allclose(answer, expected, rtol=1e-9, atol=slack, err_msg=name)
    np.testing.assert_allclose(cs[1].log_survival(y[1]), cs.log_survival(y)[1], rtol=1e-12)


@every_kind
def test_indexing_is_that_of_arrays(kind):
    cs = kind.make((3, 2))
    mean = cs.mean()
    mask = np.array([True, False, True])
    for index in (1, -1, slice(1, None), mask, [2, 0], (1, 0), (slice(None), 1), np.array([0, 2]), None):
        np.testing.assert_allclose(cs[index].mean(), mean[index], **ROUNDING)
        assert cs[index].batch_shape == mean[index].shape[: mean[index].ndim - 1 - len(kind.event_shape)]
    np.testing.assert_allclose(
        cs[..., 0].mean(), mean[:, 0], **ROUNDING
    )  # the dots stand for batch dimensions only
    np.testing.assert_allclose(cs[torch.tensor(mask)].mean(), mean[mask], **ROUNDING)
    np.testing.assert_allclose(cs[torch.tensor([2, 0]), 1].mean(), mean[[2, 0], 1], **ROUNDING)
    with pytest.raises(IndexError):
        cs[3]


@every_kind
def test_length_and_iteration_are_those_of_the_first_batch_dimension(kind):
    cs = kind.make((3, 2))
    assert len(cs) == 3
    parts = list(cs)
    assert [p.batch_shape for p in parts] == [(2,)] * 3
    np.testing.assert_allclose(np.stack([p.mean() for p in parts]), cs.mean(), **ROUNDING)
    single = kind.make(())
    assert single  # a set is never false
    with pytest.raises(TypeError, match="single set"):
        len(single)
    with pytest.raises(TypeError, match="single set"):
        iter(single)
    with pytest.raises(IndexError, match="single set"):
        single[0]


@every_kind
@pytest.mark.parametrize("given", ["numpy", "torch"])
def test_pickles_come_back_as_they_were(kind, given):
    cs = kind.make((3,), given)
    back = pickle.loads(pickle.dumps(cs))
    assert type(back) is type(cs)
    y = kind.outcome((3,))
    for question in (
        lambda c: c.mean(),
        lambda c: c.entropies(),
        lambda c: c.level(y),
        lambda c: c.region(0.1).measure,
    ):
        before, after = question(cs), question(back)
        assert type(after) is type(before)
        np.testing.assert_allclose(np.asarray(after), np.asarray(before), rtol=1e-12)
    assert pickle.loads(pickle.dumps(cs.region(0.1))).contains(y).shape == (3,)


@pytest.mark.parametrize("kind", [k for k in KINDS if k.repeats], ids=repr)
def test_reduction_keeps_the_hull_and_drops_repetitions(kind):
    cs = kind.make((3,))
    assert cs.extremes().tolist() == [[True, True, False]] * 3
    less = cs.reduce()
    assert type(less) is type(cs)
    assert less.num_extremes == 2
    np.testing.assert_allclose(less.mean(), cs.mean()[:, :2], **ROUNDING)
    # both are within their gap and four standard errors of the truth
    u, v = less.uncertainty(), cs.uncertainty()
    assert (np.abs(u.total - v.total) <= u.gap + v.gap + 4 * (u.error + v.error) + 1e-12).all()
    np.testing.assert_allclose(less.log_survival(kind.outcome((3,))), cs.log_survival(kind.outcome((3,))))


@every_kind
def test_one_distribution_instead_of_many(kind):
    cs, single = kind.make((3,)), kind.make((3,), m=1)
    np.testing.assert_allclose(single.point().mean(), single.mean())
    assert single.center() is not None
    assert single.average([1.0]) is not None
    weights = np.array([0.5, 0.3, 0.2])
    one = cs.point(weights)
    assert (one.batch_shape, one.num_extremes) == ((3,), 1)
    np.testing.assert_allclose(one.mean()[:, 0], np.einsum("j,bj...->b...", weights, cs.mean()))
    np.testing.assert_allclose(cs.point().mean()[:, 0], cs.mean().mean(1))
    if kind.name == "diagonal":  # a Normal with the moments of the mixture, which is not in the hull
        square = np.einsum("j,bjd->bd", weights, cs.scale**2 + (cs.loc - one.loc) ** 2)
        np.testing.assert_allclose(one.scale[:, 0], np.sqrt(square))
    else:
        assert cs.contains(one).all()
        np.testing.assert_allclose(cs.distance(one, "tv"), 0, atol=1e-6)
    for bad, message in (([0.5, 0.5], "one for each of the 3 extremes"), ([0.5, 0.5, 0.5], "sums to 1.5")):
        with pytest.raises(ValueError, match=message):
            cs.point(bad)


@pytest.mark.parametrize("kind", KINDS[:-1], ids=repr)
def test_a_set_with_several_extremes_is_no_distribution(kind):
    cs = kind.make((3,))
    for question in (cs.contains, cs.distance):
        with pytest.raises(ValueError, match=r"one (extreme|distribution)"):
            question(cs)


@every_kind
def test_the_region_of_a_level_holds_what_has_the_level(kind):
    cs, y = kind.make((3,)), kind.outcome((3,))
    assert cs.region_at_level(cs.level(y)).contains(y).all()
    assert cs.region_at_level(log_survival=cs.log_survival(y)).contains(y).all()
    np.testing.assert_allclose(cs.level(y), -np.expm1(cs.log_survival(y)))
    for whole in (
        cs.region_at_level(1.0),
        cs.region_at_level(np.inf),
        cs.region_at_level(log_survival=-np.inf),
    ):
        assert whole.contains(y if kind.finite else 1e9 * (1 + y * y)).all()
        np.testing.assert_allclose(whole.lower_probability, 1)


@every_kind
def test_bad_levels_are_named(kind):
    cs = kind.make((3,))
    for arguments, message in [
        ({"level": -0.1}, "level is -0.1"),
        ({"level": [0.5, np.nan, 0.5]}, r"level\[1\] is nan"),
        ({"log_survival": 0.1}, "log_survival is 0.1"),
        ({"level": [0.5, 0.5]}, "one number, or one per set"),
        ({}, "either level or log_survival"),
        ({"level": 0.5, "log_survival": -1.0}, "either level or log_survival"),
    ]:
        with pytest.raises(ValueError, match=message):
            cs.region_at_level(**arguments)


@every_kind
def test_the_hull_of_a_region_holds_it(kind):
    cs, y = kind.make((3,)), kind.outcome((3,))
    region = cs.region_at_level(log_survival=cs.log_survival(y))
    lower, upper = region.hull()
    assert (lower <= y).all()
    assert (y <= upper).all()
    if kind.name == "diagonal":
        box = cs.region(0.1, "box")
        assert box.hull() == (box.lower, box.upper)
        with pytest.raises(ValueError, match="not known"):
            cs.region(0.1, "minimal").hull()


@every_kind
def test_the_hartley_measure_needs_classes(kind):
    if not kind.finite:
        with pytest.raises(ValueError, match="finitely many outcomes"):
            kind.make().generalized_hartley()


def test_the_newcomer_agrees_with_the_kind_that_it_could_have_used():
    import cbdl

    heads = np.random.default_rng(1).uniform(size=(5, 4))
    coins, classes = BernoulliCredalSet(heads), cbdl.CategoricalCredalSet(np.stack([1 - heads, heads], -1))
    for question in ("uncertainty", "entropy_bounds", "extremes"):
        mine, theirs = (getattr(c, question)() for c in (coins, classes))
        if question == "uncertainty":
            mine, theirs = mine.epistemic, theirs.epistemic
        np.testing.assert_allclose(mine, theirs, atol=1e-9)
    np.testing.assert_allclose(coins.level(np.ones(5)), classes.level(np.ones(5)))
    np.testing.assert_array_equal(coins.region(0.2).mask, classes.region(0.2).mask)


def test_a_newcomer_who_forgets_a_primitive_is_told():
    class Forgetful(BernoulliCredalSet):
        _means = CredalSet._means

    Forgetful.__abstractmethods__ = frozenset({"_means"})
    with pytest.raises(TypeError, match="_means"):
        Forgetful([0.5])


@pytest.mark.parametrize("space", ["line", "plane"])
def test_a_cost_is_refused_where_outcomes_are_no_classes(space):
    one = np.ones((2, 2))
    sets = (
        cbdl.NormalCredalSet(0 * one, one) if space == "line" else cbdl.DiagonalNormalCredalSet(0 * one, one)
    )
    with pytest.raises(ValueError, match="cost is for Wasserstein distances between classes"):
        sets.distance(sets.point(), "w2", cost="index")
