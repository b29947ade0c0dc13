"""Constructions of credal sets, on cases worked out by hand and against definitions written another way."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import log_softmax, softmax

import cbdl
from cbdl.bayes._densities import worst_rows
from cbdl.constructions import (
    decalibration,
    relative_likelihood,
    relative_likelihoods,
    robust,
    trimmed,
    wrapper,
)
from trials import trials

# --- wrapper -----------------------------------------------------------------------------------------------


def test_the_wrapper_of_two_members_by_hand():
    box = wrapper([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]])
    np.testing.assert_allclose(box.lower, [0.2, 0.3, 0.1])
    np.testing.assert_allclose(box.upper, [0.6, 0.5, 0.3])
    # free mass 0.4 of a total width of 0.8: half of every interval
    np.testing.assert_allclose(box.center(), [0.4, 0.4, 0.2])


def test_the_wrapper_holds_the_hull_and_is_never_more_certain():
    P = np.random.default_rng(0).dirichlet(np.ones(5), size=(30, 4))
    hull, box = cbdl.CategoricalCredalSet(P), wrapper(P)
    assert (box.lower_entropy() <= hull.lower_entropy() + 1e-12).all()
    assert (box.upper_entropy() >= hull.upper_entropy() - 1e-9).all()
    assert (box.region(0.1, "minimal").measure >= hull.region(0.1, "minimal").measure).all()
    np.testing.assert_allclose(wrapper(hull).lower, box.lower)


# --- trimmed -----------------------------------------------------------------------------------------------


def test_the_member_that_went_astray_is_trimmed_row_by_row():
    near = np.array([[0.6, 0.4], [0.58, 0.42], [0.62, 0.38], [0.61, 0.39]])
    rows = np.stack([np.concatenate([near, [[0.0, 1.0]]]), np.concatenate([[[1.0, 0.0]], near])])
    kept = trimmed(rows, share=0.2)
    assert kept.num_extremes == 4
    np.testing.assert_allclose(np.sort(kept.probs[..., 0], -1), np.sort([near[:, 0]] * 2, -1))


@pytest.mark.parametrize(
    ("m", "share", "kept"), [(10, 0.0, 10), (10, 0.9, 1), (10, 0.1, 9), (3, 0.5, 1), (3, 0.99, 1)]
)
def test_as_many_are_trimmed_as_was_said(m, share, kept):
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=(4, m))
    assert trimmed(P, share).num_extremes == kept
    assert trimmed(torch.tensor(P), share, "tv").num_extremes == kept


def test_distances_to_the_mean_are_what_is_said():
    # euclidean: (.2, -.1, -.1) is at 0.245, (.15, -.15, 0) at 0.212; in total variation 0.2 and 0.15
    P = np.array([[0.5, 0.2, 0.3], [0.2, 0.5, 0.3], [0.35, 0.35, 0.3], [0.35, 0.35, 0.3]])
    for distance in ("euclidean", "tv"):
        np.testing.assert_allclose(trimmed(P, 0.5, distance).probs, P[2:])
    with pytest.raises(ValueError, match="distance is 'cosine'"):
        trimmed(P, 0.5, "cosine")
    with pytest.raises(ValueError, match="share is 1"):
        trimmed(P, 1.0)


# --- relative likelihood -----------------------------------------------------------------------------------


def test_members_below_alpha_leave():
    logs = np.log([0.50, 0.48, 0.30, 0.475])
    np.testing.assert_allclose(relative_likelihoods(logs), [1, 0.96, 0.6, 0.95])
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=(5, 4))
    np.testing.assert_allclose(relative_likelihood(P, logs, 0.9).probs, P[:, [0, 1, 3]])
    np.testing.assert_allclose(relative_likelihood(P, logs, 1.0).probs, P[:, :1])
    np.testing.assert_allclose(relative_likelihood(P, logs, 0.0).probs, P)
    with pytest.raises(ValueError, match="2 numbers for 4 members"):
        relative_likelihood(P, [0.0, 0.0])
    with pytest.raises(ValueError, match="finite"):
        relative_likelihood(P, [0.0, np.nan, 0.0, 0.0])


# --- robust members ----------------------------------------------------------------------------------------


def test_the_loss_of_the_worst_share_is_the_conditional_value_at_risk():
    density = torch.tensor([-1.0, -4.0, -2.0, -3.0]).double()
    for share, mean in ((1.0, 2.5), (0.5, 3.5), (0.75, 3.0), (0.01, 4.0)):
        weights = worst_rows(density, share)
        assert float(weights.sum()) == pytest.approx(4)
        assert float(-(density * weights).mean()) == pytest.approx(mean)


def test_robust_members_learn_from_their_worst_rows():
    """A bias alone, fitted to labels 0 (80 %) and 1: all rows ask for log(1/4), the worst half for half and half."""

    class Bias(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = torch.nn.Parameter(torch.zeros(2))

        def forward(self, x):
            return self.bias.expand(len(x), 2)

    X, y = np.zeros((100, 1)), np.repeat([0, 1], [80, 20])
    model = cbdl.CBDL(
        priors=[cbdl.priors.Normal(0.0, 100.0)],
        likelihoods=robust(Bias, members=2, least=0.5),
        method=cbdl.Ensemble(epochs=400, batch_size=100, lr=0.05),
        seed=0,
    ).fit(X, y)
    probs = model.predict(X[:1]).probs[0]
    # the worst half: 20 of class 1 and 30 of class 0 as long as p(1) < 1/2, of 50 rows: p(1) = 0.4
    np.testing.assert_allclose(probs, [[0.6, 0.4], [0.8, 0.2]], atol=0.01)


@pytest.mark.parametrize(
    "net",
    [
        cbdl.nets.mlp(4, 3, hidden=(5,)),
        torch.nn.Sequential(
            torch.nn.Unflatten(1, (1, 4)), torch.nn.Conv1d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(4, 3)
        ),
    ],
)
def test_the_gradient_is_that_of_the_worst_rows_alone(net):
    """Whichever way the networks are evaluated: matrix products by hand, or a convolution member by member."""
    from cbdl.bayes.cohort import Cohort
    from cbdl.bayes.data import prepare

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 4)), np.arange(8) % 3
    data = prepare(X, y, space="classes", dtype=torch.float64)
    cohort = Cohort.of([cbdl.priors.Normal()] * 2, cbdl.likelihoods.Categorical(net, worst=0.5), data)
    theta = cohort.initial[:, None]
    (batch,) = data.parts(8)
    nll, by_theta, _ = cohort.gradient(theta, cohort.initial_noise, batch, dict(cohort.initial_buffers), 1.0)
    leaf = theta[1, 0].clone().requires_grad_()
    values, at = {}, 0
    for entry in cohort.layout.entries:
        values[entry.name] = leaf[at : at + entry.size].view(entry.shape)
        at += entry.size
    out = torch.func.functional_call(cohort.forward.network, values, (batch.x,))
    loss = torch.nn.functional.cross_entropy(out, batch.y, reduction="none").topk(4).values.mean()
    (truth,) = torch.autograd.grad(loss, leaf)
    torch.testing.assert_close(nll[1, 0], loss.detach())
    torch.testing.assert_close(by_theta[1, 0], truth)


def test_robust_likelihoods_are_saved_with_their_share(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 2, 40)
    net = cbdl.nets.mlp(3, 2, hidden=(4,))
    model = cbdl.CBDL(
        priors=[cbdl.priors.Normal()], likelihoods=robust(net, 2), method=cbdl.Ensemble(epochs=1)
    ).fit(X, y)
    model.save(tmp_path / "model")
    assert [one.worst for one in cbdl.load(tmp_path / "model").likelihoods] == [0.5, 1.0]


@pytest.mark.parametrize("bad", [{"least": 0.0}, {"least": 1.2}, {"members": 0}, {"members": 1.5}])
def test_shares_that_make_no_sense_are_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        robust(cbdl.nets.mlp(3, 2), **bad)
    with pytest.raises(ValueError, match="worst is 0"):
        cbdl.likelihoods.Categorical(cbdl.nets.mlp(3, 2), worst=0.0)


def test_sets_keep_the_names_of_classes():
    hull = cbdl.CategoricalCredalSet([[0.6, 0.4], [0.5, 0.5]]).with_labels(["cat", "dog"])
    for own in (wrapper(hull), trimmed(hull, 0.5), relative_likelihood(hull, [0.0, 0.0])):
        assert own.labels == ("cat", "dog")


@pytest.mark.parametrize(
    "construct", [wrapper, trimmed, lambda given: relative_likelihood(given, [0.0, 0.0])]
)
def test_members_are_distributions_over_classes(construct):
    for other in (
        cbdl.NormalCredalSet([0.0, 1.0], [1.0, 1.0]),
        cbdl.IntervalCredalSet([0.2, 0.2], [0.8, 0.8]),
    ):
        with pytest.raises(ValueError, match=f"members are a {type(other).__name__}"):
            construct(other)


# --- decalibration -----------------------------------------------------------------------------------------


@trials(25)
@given(st.integers(0, 10_000), st.integers(2, 5), st.floats(0.3, 0.99))
def test_shifts_are_the_roots_of_the_relative_likelihood(seed, J, alpha):
    rng = np.random.default_rng(seed)
    logits, y = 2 * rng.normal(size=(40, J)), np.arange(40) % J
    shifts = decalibration(logits, y, alpha)

    def excess(t, k):
        moved = logits + t * np.eye(J)[k]
        change = (log_softmax(moved, -1) - log_softmax(logits, -1))[np.arange(40), y].mean()
        return change - np.log(alpha)

    for k in range(J):
        np.testing.assert_allclose(shifts.upper[k], brentq(excess, 0, 300, args=(k,), xtol=1e-13), atol=1e-9)
        np.testing.assert_allclose(shifts.lower[k], brentq(excess, -300, 0, args=(k,), xtol=1e-13), atol=1e-9)


def test_intervals_are_probabilities_under_the_shifts_and_hold_the_network():
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(50, 4)), rng.integers(0, 4, 50)
    shifts = decalibration(logits, y, 0.9)
    new = 3 * rng.normal(size=(7, 4))
    box = shifts(new)
    eye = np.eye(4)
    upper = np.stack([softmax(new + shifts.upper[k] * eye[k], -1)[:, k] for k in range(4)], -1)
    lower = np.stack([softmax(new + shifts.lower[k] * eye[k], -1)[:, k] for k in range(4)], -1)
    assert (box.upper <= upper + 1e-12).all()  # coherent bounds may be tighter
    assert (box.lower >= lower - 1e-12).all()
    assert box.contains(softmax(new, -1)).all()


def test_alpha_1_leaves_a_calibrated_network_alone_and_small_alpha_leaves_nothing():
    logits, y = np.zeros((6, 3)), [0, 1, 2, 0, 1, 2]
    one = decalibration(logits, y, 1.0)([0.0, 0.0, 0.0])
    # a likelihood that is flat to rounding is flat within its root
    np.testing.assert_allclose(one.upper - one.lower, 0, atol=1e-6)
    wide = decalibration(logits, y, 1e-6)(torch.zeros(2, 3))
    assert isinstance(wide.lower, torch.Tensor)
    assert (wide.upper > 0.999).all()


def test_a_row_of_which_the_network_is_all_too_sure_does_not_free_a_class():
    """Where 1 - p rounds to 0 the likelihood still knows how far a shift may go."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    logits = rng.normal(size=(300, 3)) + 3 * np.eye(3)[y]
    y[0], logits[0] = 0, [60.0, 0.0, 0.0]

    def excess(t, k):
        moved = logits + t * np.eye(3)[k]
        return (log_softmax(moved, -1) - log_softmax(logits, -1))[np.arange(300), y].mean() - np.log(0.9)

    shifts = decalibration(logits, y, 0.9)
    truth = [brentq(excess, -300, 0, args=(k,), xtol=1e-13) for k in range(3)]
    np.testing.assert_allclose(shifts.lower, truth, atol=1e-9)


def test_margins_beyond_the_precision_of_probabilities_count():
    """Margins of 100: a shift t costs the rows of the other class, half of them, log(1 + e^(t - 100)) each."""
    y = np.arange(10) % 2
    logits, alpha = 100.0 * np.eye(2)[y], 0.8
    shifts = decalibration(logits, y, alpha)
    far = 100 + np.log(np.expm1(-2 * np.log(alpha)))
    np.testing.assert_allclose(shifts.upper, far, rtol=1e-12)
    np.testing.assert_allclose(shifts.lower, -far, rtol=1e-12)
    # under the largest shift against it a row of margin 100 has 1 / (1 + e^(far - 100))
    np.testing.assert_allclose(shifts([100.0, 0.0]).lower, [alpha**2, 0.0], rtol=1e-9, atol=1e-12)


def test_a_class_that_never_occurred_may_be_impossible():
    shifts = decalibration(np.zeros((6, 3)), [0, 1, 0, 1, 0, 1], 0.9)
    assert shifts.lower[2] == -np.inf
    assert shifts([0.0, 0.0, 0.0]).lower[2] == 0


@pytest.mark.parametrize(
    ("logits", "y", "alpha", "message"),
    [
        (np.zeros((3, 2)), [0, 1], 0.9, "logits has shape"),
        (np.zeros((2, 2)), [0, 2], 0.9, "from 0 to 1"),
        (np.zeros((2, 2)), [0, 0.5], 0.9, "from 0 to 1"),
        (np.zeros((2, 2)), ["cat", "dog"], 0.9, "y holds words"),
        (np.full((2, 2), np.nan), [0, 1], 0.9, "finite"),
        (np.zeros((2, 2)), [0, 1], 0.0, "alpha is 0"),
    ],
)
def test_bad_arguments_of_decalibration_are_named(logits, y, alpha, message):
    with pytest.raises(ValueError, match=message):
        decalibration(logits, y, alpha)
    with pytest.raises(ValueError, match="3 classes; the shifts are of 2"):
        decalibration(np.zeros((2, 2)), [0, 1])([0.0, 0.0, 0.0])
