"""What rows are rejected by in our line: calibrated under shift, and the set counts where it tells errors."""

import numpy as np
import pytest

from cbdl.studies.images.rejector import WEIGHTS, Rejector, best_power, powered

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


def test_the_set_counts_where_its_width_tells_errors_and_not_where_it_does_not():
    own, y = members(600, 1.0)
    point = powered(own).mean(1)
    wrong = point.argmax(-1) != y
    telling = np.where(wrong, 0.2, 1.0)[:, None].repeat(2, 1)
    for known, weights in ((telling, WEIGHTS[1:]), (1.2 - telling, WEIGHTS[:1])):
        # sets that all have the same labels: here one
        assert Rejector.chosen(own, known, point, y).weight in weights


def test_doubt_is_the_probability_of_an_error_and_a_share_of_the_width():
    own, known = np.log([[[0.7, 0.3], [0.5, 0.5]]]), np.array([[1.0, 0.5]])
    error, width = Rejector(1.0, 0.2).parts(own, known, np.array([[0.6, 0.4]]))
    assert error == pytest.approx([0.4])
    # the second member says 0.25 to 0.75 of the first class, the first one 0.7
    assert width == pytest.approx([0.5])
    assert Rejector(1.0, 0.2)(own, known, np.array([[0.6, 0.4]])) == pytest.approx([0.4 + 0.2 * 0.5])
