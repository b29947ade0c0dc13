"""Monte Carlo noise must not pass for ignorance."""

import numpy as np
import torch

import cbdl
from cbdl.prediction import Predictive, _bootstrap


def independent(rows, members, draws, seed=0):
    """Predictions of identical members with independent draws, in antithetic pairs, for classes."""
    rng = np.random.default_rng(seed)
    centre, wide = rng.normal(size=(rows, 1, 1, 4)), 0.7
    eps = rng.normal(size=(rows, members, draws // 2, 4))
    logits = np.concatenate([centre + wide * eps, centre - wide * eps], axis=2)
    order = np.arange(draws).reshape(2, -1).T.reshape(-1)  # pairs side by side
    return torch.tensor(logits[:, :, order]).softmax(-1)


def prediction(probs, seed=0):
    members, draws = probs.shape[1:3]
    weights = torch.cat([torch.ones(1, draws), _bootstrap(seed, members, draws)]).double()
    weights = weights / weights.sum(1, keepdim=True)
    averaged = torch.einsum("wd,rmdj->rmwj", weights, probs)
    counted = torch.full((len(probs),), float(draws), dtype=torch.float64)
    return Predictive({"probs": averaged[:, :, 0]}, averaged[:, :, 1:], counted)


def test_identical_members_show_the_noise_that_is_reported():
    found = prediction(independent(rows=600, members=6, draws=20))
    epistemic = np.asarray(found.credal_set("mixture", lambda t: t).uncertainty().epistemic)
    noise = found.noise("mixture").numpy()
    # The two estimate the same mean; each has a spread of about a third of it, over 600 inputs.
    assert abs(epistemic.mean() / noise.mean() - 1) < 0.1
    assert noise.mean() > 0.02


def test_noise_falls_with_the_root_of_the_draws():
    few = prediction(independent(400, 4, 16)).noise("mixture").mean()
    many = prediction(independent(400, 4, 256)).noise("mixture").mean()
    assert 3.0 < float(few / many) < 5.5  # sqrt(16) = 4


def test_the_same_holds_on_the_line():
    rng = np.random.default_rng(0)
    rows, members, draws = 80, 4, 20
    eps = rng.normal(size=(rows, members, draws // 2))
    loc = torch.tensor(np.stack([eps, -eps], -1).reshape(rows, members, draws)) * 0.5
    scale = torch.tensor(np.exp(0.3 * rng.normal(size=loc.shape)))
    even = torch.full((rows, members, draws), 1 / draws, dtype=torch.float64)
    copies = _bootstrap(0, members, draws).double()
    numbers = {"loc": loc, "scale": scale, "weight": even}
    one = (torch.ones(1), torch.ones(1))
    counted = torch.full((rows,), float(draws), dtype=torch.float64)
    found = Predictive(numbers, copies, counted, (one,) * members)
    epistemic = np.asarray(found.credal_set("mixture", lambda t: t).uncertainty().epistemic)
    assert abs(epistemic.mean() / float(found.noise("mixture").mean()) - 1) < 0.25


def test_members_of_a_cohort_share_their_draws_so_that_equal_ones_agree_exactly():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    net = cbdl.nets.mlp(2, 2, (4,))
    model = cbdl.CBDL(
        priors=[cbdl.priors.Normal(0, 1)] * 3,
        likelihoods=[cbdl.likelihoods.Categorical(net)],
        method=cbdl.MeanField(epochs=5),
        verbose=False,
    ).fit(X, (X[:, 0] > 0).astype(int))
    ((cohort, posterior),) = model._learned.parts
    state = {n: t[:1].expand_as(t).clone() for n, t in posterior.state().items()}
    from dataclasses import replace

    model._learned = replace(model._learned, parts=((cohort, model.method.from_state(cohort, state)),))
    found = model.predict(X)
    np.testing.assert_allclose(found.uncertainty().epistemic, 0, atol=1e-6)
    assert (np.asarray(found.noise) > 0).all()
