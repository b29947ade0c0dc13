"""The background: densities are those of scipy's Normals, sets are those of the listed likelihoods."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

import cbdl
from cbdl.constructions import background, with_background

J, D = 3, 4


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    y = rng.integers(0, J, 900)
    mix = rng.normal(size=(D, D))
    return (4 * rng.normal(size=(J, D)))[y] + rng.normal(size=(900, D)) @ mix, y


def test_the_density_is_that_of_the_likeliest_normal_with_the_covariance_within_classes(rows):
    z, y = rows
    [own] = background(z[:600], y[:600], z[600:]).layers
    means = np.stack([z[:600][y[:600] == j].mean(0) for j in range(J)])
    rest = z[:600] - means[y[:600]]
    within = rest.T @ rest / 600 + 1e-3 * np.diag(z[:600].var(0, ddof=1))  # with its ridge
    truth = [multivariate_normal(mean, within).logpdf(z[600:]) for mean in means]
    gap = np.max(truth, axis=0) - own.log_density(torch.from_numpy(z[600:])).numpy()
    assert np.ptp(gap) < 1e-9


def test_features_in_other_units_say_the_same(rows):
    z, y = rows
    units = np.array([1e-3, 5.0, 70.0, 1.0])
    a, b = (
        background(f(z[:600]), y[:600], f(z[600:])).known(f(z))
        for f in (lambda x: x, lambda x: 3 + x * units)
    )
    assert np.allclose(a, b, atol=1e-9)


def test_the_level_is_even_and_the_median_is_99_to_1(rows):
    z, y = rows
    own = background(z[:600], y[:600], z[600:], share=0.1)
    known = own.known(z[600:])
    assert (known < 0.5).mean() == pytest.approx(0.1, abs=0.01)
    assert np.median(known) == pytest.approx(0.99, abs=1e-3)


def test_a_stranger_to_one_layer_is_a_stranger(rows):
    z, y = rows
    split = [z[:, :2], z[:, 2:]]
    own = background([v[:600] for v in split], y[:600], [v[600:] for v in split])
    inside = [v[600:] for v in split]
    assert np.median(own.known(inside)) == pytest.approx(0.99, abs=0.01)
    assert own.known([inside[0], inside[1] + 50]).max() < 0.01


def test_a_feature_that_never_moves_in_training_gives_strangers_away(rows):
    z, y = rows
    still = np.column_stack([z, np.zeros(len(z))])
    own = background(still[:600], y[:600], still[600:])
    stranger = still[600:].copy()
    stranger[:, -1] = 5.0
    assert own.known(still[600:]).mean() > 0.9
    assert own.known(stranger).max() < 0.01


@pytest.fixture(scope="module")
def unsure(rows):
    """A background of layers and outputs, held-out features, and probabilities that hold one class by their doubt."""
    z, y = rows
    rng = np.random.default_rng(5)

    def probs(doubts):
        return np.column_stack([1 - doubts, doubts / 2, doubts / 2])

    held_out = probs(rng.beta(1, 20, 300))
    return background(z[:600], y[:600], z[600:], share=0.1, probs=held_out), z[600:], held_out, probs


def test_a_row_of_which_the_network_is_less_sure_than_of_held_out_rows_is_background(unsure):
    own, inside, _, probs = unsure
    known = [own.known(inside, probs(np.full(300, doubt))) for doubt in (0.0, 0.05, 0.3, 0.6)]
    assert all((a > b).all() for a, b in itertools.pairwise(known))
    assert np.median(known[0]) > 0.98
    assert known[-1].max() < 0.01


def test_outputs_share_odds_and_share_with_the_layers(unsure):
    own, inside, held_out, _ = unsure
    known = own.known(inside, held_out)
    assert (known < 0.5).mean() == pytest.approx(0.1, abs=0.02)
    assert np.median(known) == pytest.approx(0.99, abs=0.02)  # a row is seldom at both medians
    entropy = -(held_out * np.log(held_out)).sum(1)
    assert own.outputs.level == pytest.approx(-np.quantile(entropy, 0.95), rel=1e-9)


def test_where_held_out_rows_are_doubtful_doubt_says_nothing(rows):
    z, y = rows
    doubtful = np.random.default_rng(6).dirichlet(np.ones(J), 300)
    own = background(z[:600], y[:600], z[600:], probs=doubtful)
    plain = background(z[:600], y[:600], z[600:], share=0.005)
    probs = np.tile([[0.5, 0.3, 0.2]], (300, 1))
    assert (own.known(z[600:], probs) > 0.75 * plain.known(z[600:])).mean() > 0.95


def test_one_class_alone_has_no_entropy_and_is_known(unsure):
    own, inside, *_ = unsure
    assert np.isfinite(own.known(inside, np.tile([[1.0, 0.0, 0.0]], (300, 1)))).all()


def test_outputs_are_given_of_all_rows_or_of_none(rows, unsure):
    z, y = rows
    own, inside, held_out, _ = unsure
    with pytest.raises(ValueError, match="give probs of these rows too"):
        own.known(inside)
    with pytest.raises(ValueError, match="give those of held-out rows"):
        background(z[:600], y[:600], z[600:]).known(inside, held_out)
    with pytest.raises(ValueError, match=r"probs has shape \(299, 3\)"):
        own.known(inside, held_out[1:])
    with pytest.raises(ValueError, match="no probabilities"):
        background(z[:600], y[:600], z[600:], probs=np.log(held_out))


def test_the_set_is_the_box_of_all_networks_and_all_labels_of_the_background():
    rng = np.random.default_rng(0)
    probs, known = rng.dirichlet(np.ones(J), size=(20, 2)), rng.uniform(size=(20, 2))
    share = known[..., None, None]
    listed = share * probs[:, :, None] + (1 - share) * np.eye(J)
    hull = cbdl.CategoricalCredalSet(listed.reshape(20, -1, J))
    box = with_background(probs, known)
    assert np.allclose(box.lower, hull.lower_probabilities())
    assert np.allclose(box.upper, hull.upper_probabilities())
    assert np.asarray(box.contains(probs.mean(1))).all()


def test_draws_of_one_posterior_are_averaged_label_by_label():
    rng = np.random.default_rng(1)
    probs, known = rng.dirichlet(np.ones(J), size=(20, 3)), rng.uniform(size=(20, 3))
    share = known[..., None, None]
    labels = (share * probs[:, :, None] + (1 - share) * np.eye(J)).mean(1)  # (20, J of labels, J)
    hull = cbdl.CategoricalCredalSet(labels)
    box = with_background(probs, known, "average")
    assert np.allclose(box.lower, hull.lower_probabilities())
    assert np.allclose(box.upper, hull.upper_probabilities())
    assert np.allclose(box.uncertainty().total, hull.upper_entropy(), atol=1e-6)
    assert (box.upper - box.lower <= np.asarray(with_background(probs, known).upper) + 1e-12).all()
    sure = with_background(probs, np.ones((20, 3)), "average")
    assert np.allclose(sure.lower, probs.mean(1))
    assert sure.uncertainty().epistemic.max() < 1e-6
    with pytest.raises(ValueError, match="networks is 'hull'"):
        with_background(probs, known, "hull")


def test_what_is_known_is_the_network_and_what_is_not_is_everything():
    p = np.array([[[0.7, 0.2, 0.1]]])
    assert with_background(p, [[1.0]]).uncertainty().epistemic[0] == pytest.approx(0.0, abs=1e-9)
    assert with_background(p, [[0.0]]).uncertainty().epistemic[0] == pytest.approx(np.log(3))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.zeros((5, 2)), [0, 1], np.zeros((3, 2))), "y has 2 labels for 5 rows"),
        ((np.eye(4), [0, 1, 0, 1], np.zeros((3, 2))), "held_out has shape"),
        ((np.full((4, 2), np.nan), [0, 1, 0, 1], np.zeros((3, 2))), r"features\[0\] is not finite"),
        ((np.eye(4), [0, -1, 0, 1], np.eye(4)), "class numbers from 0"),
        ((np.eye(4), [0, 0.5, 0, 1], np.eye(4)), "class numbers from 0"),
        ((np.eye(4), ["cat", "dog", "cat", "dog"], np.eye(4)), "y holds words"),
    ],
)
def test_bad_rows_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        background(*arguments)
    with pytest.raises(ValueError, match=r"share is 0\.7"):
        background(np.eye(4), [0, 1, 0, 1], np.eye(4), share=0.7)


@pytest.mark.parametrize("networks", ["box", "average"])
def test_what_is_no_probability_makes_no_set(networks):
    probs = np.full((3, 2, 4), 0.25)
    for known in (-0.5, 1.5, np.nan):
        with pytest.raises(ValueError, match="known has numbers that are no probabilities"):
            with_background(probs, np.full((3, 2), known), networks)
    for bad in (2 * probs, np.full_like(probs, np.nan)):
        with pytest.raises(ValueError, match="probs has rows that are no probabilities"):
            with_background(bad, np.full((3, 2), 0.5), networks)
