"""What rows are rejected by in our line: calibrated under shift, and the set counts where it tells errors."""

import numpy as np
import pytest

from cbdl.studies.images.rejector import RIDGE, WEIGHTS, Rejector, Rejectors, best_power, powered

RNG = np.random.default_rng(0)


def members(n, power):
    """Two members' log probabilities (n, 2, 3) that are `power` times too sure, and labels from the true ones."""
    logits = RNG.normal(0, 1.5, (n, 1, 3)) + np.zeros((1, 2, 1))
    p = powered(logits)[:, 0]
    y = (p.cumsum(-1) < RNG.random((n, 1))).sum(-1)
    return np.log(powered(power * logits)), y.astype(np.float64)


def test_the_power_undoes_what_was_done_to_calibrated_members():
    own, y = members(20_000, 2.5)
    assert best_power(own, y) == pytest.approx(1 / 2.5, abs=0.03)


def test_power_and_offsets_undo_what_was_done_to_calibrated_members():
    own, y = members(20_000, 2.5)
    offsets = np.array([0.5, -0.5, 0.0])
    rule = Rejector.learned(np.log(powered(own + offsets)), y)
    assert rule.power == pytest.approx(1 / 2.5, abs=0.03)
    assert np.subtract(rule.offsets, np.mean(rule.offsets)) == pytest.approx(-offsets / 2.5, abs=0.05)


def test_what_is_learned_is_where_the_penalised_loss_is_least():
    own, y = members(300, 1.7)
    own = own + RNG.normal(0, 0.3, own.shape)  # members that differ
    rule = Rejector.learned(np.log(powered(own)), y)

    def loss(theta):
        p = powered(np.exp(theta[0]) * np.log(powered(own)) + theta[1:]).mean(1)
        return -np.log(p[np.arange(len(y)), y.astype(int)]).mean() + RIDGE / 2 * theta @ theta

    best = np.array([np.log(rule.power), *rule.offsets])
    for step in 0.01 * np.concatenate([np.eye(4), -np.eye(4)]):
        assert loss(best) < loss(best + step)


def learned(own, known, y, sets=1):
    """The rules from `sets` equal sets, each of a kind of its own."""
    point = powered(own).mean(1)
    kinds = [f"kind {place}" for place in range(sets)]
    return Rejectors.learned(own, known, point, y[: len(y) // sets], kinds)


def test_the_set_counts_where_its_width_tells_errors_and_not_where_it_does_not():
    own, y = members(600, 1.0)
    wrong = powered(own).mean(1).argmax(-1) != y
    telling = np.where(wrong, 0.2, 1.0)[:, None].repeat(2, 1)
    for known, weights in ((telling, WEIGHTS[1:]), (1.2 - telling, WEIGHTS[:1])):
        assert learned(own, known, y).whole.weight in weights


def test_a_class_that_is_named_too_often_is_doubted_and_calibrated_members_are_left_as_they_are():
    own, y = members(4_000, 1.0)
    both, twice = np.concatenate([own, own]), np.concatenate([y, y])
    known = np.ones((len(both), 2))
    plain = learned(both, known, twice, sets=2).whole
    assert np.abs(plain.offsets).max() < 0.1
    too_often = np.log(powered(both + np.array([1.5, 0.0, 0.0])))
    offsets = learned(too_often, known, twice, sets=2).whole.offsets
    assert offsets[0] < min(offsets[1:]) - 1


def test_rows_of_a_kind_are_rejected_by_what_other_kinds_teach():
    (first, y), (second, _) = members(2_000, 2.0), members(2_000, 2.0)
    second = second[:, ::-1, ::-1] + np.array([0.0, 1.0, 0.0])  # other errors, of the same labels
    both = np.log(powered(np.concatenate([first, second])))
    rules = learned(both, np.ones((4_000, 2)), np.concatenate([y, y]), sets=2)
    # power and offsets, or the plain rule where they do not serve
    for kind, rows in (("kind 0", slice(2_000, None)), ("kind 1", slice(2_000))):
        taught = Rejector.learned(both[rows], y)
        own = rules.of(kind)
        assert own == Rejector(weight=own.weight) or own.offsets == pytest.approx(taught.offsets)
    assert rules.of("no corruption") == rules.whole


def test_doubt_is_the_probability_of_an_error_and_a_share_of_the_width():
    own, known = np.log([[[0.7, 0.3], [0.5, 0.5]]]), np.array([[1.0, 0.5]])
    error, width = Rejector(weight=0.2).parts(own, known, np.array([[0.6, 0.4]]))
    assert error == pytest.approx([0.4])
    # the second member says 0.25 to 0.75 of the first class, the first one 0.7
    assert width == pytest.approx([0.5])
    assert Rejector(weight=0.2)(own, known, np.array([[0.6, 0.4]])) == pytest.approx([0.4 + 0.2 * 0.5])
