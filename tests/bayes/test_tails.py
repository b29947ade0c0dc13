"""Members may be far off: as often, and as far, as rows that they have not seen say."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import cbdl
from cbdl.bayes import tails
from cbdl.bayes.cohort import Member
from cbdl.bayes.tails import Tail
from cbdl.credal import MixtureCredalSet, NormalCredalSet
from cbdl.evaluate.real import log_density_loss as nll
from cbdl.prediction import Predictive
from cbdl.recipe import DRAWS

SOURCE = np.random.default_rng(3)
X = SOURCE.uniform(-2, 2, (150, 1))
Y = np.sin(2 * X[:, 0]) + 0.1 * SOURCE.normal(size=150)
Y[::30] += 3.0  # outcomes that nothing about their inputs tells


def mixtures(rows=4, members=2, components=3, seed=0):
    source = torch.Generator().manual_seed(seed)
    shape = (rows, members, components)
    loc = torch.randn(shape, generator=source, dtype=torch.float64)
    scale = torch.rand(shape, generator=source, dtype=torch.float64) + 0.2
    weights = torch.rand(shape, generator=source, dtype=torch.float64)
    return loc, scale, weights / weights.sum(-1, keepdim=True)


def test_the_tail_is_one_wide_normal_around_the_mean_of_the_mixture():
    loc, scale, weights = mixtures()
    shares, widths = torch.tensor([0.1, 0.02]).double(), torch.tensor([3.0, 8.0]).double()
    own = tails.contaminated(loc, scale, weights, shares, widths)
    torch.testing.assert_close(own[2].sum(-1), torch.ones(4, 2, dtype=torch.float64))
    y = torch.linspace(-3, 5, 4, dtype=torch.float64)
    for r in range(4):
        for i in range(2):
            near = stats.norm(loc[r, i].numpy(), scale[r, i].numpy())
            mean = (weights[r, i] * loc[r, i]).sum()
            second = (weights[r, i] * (loc[r, i] ** 2 + scale[r, i] ** 2)).sum()
            far = stats.norm(float(mean), float(widths[i] * (second - mean**2).sqrt()))
            at, share = float(y[r]), float(shares[i])
            density = (1 - share) * (weights[r, i].numpy() @ near.pdf(at)) + share * far.pdf(at)
            assert float(tails.log_density(y, *own)[r, i]) == pytest.approx(np.log(density), rel=1e-12)


def test_the_share_and_width_of_contaminated_outcomes_are_found():
    n, source = 20_000, np.random.default_rng(0)
    far = source.random(n) < 0.05
    y = np.where(far, 6.0, 1.0) * source.normal(size=n)
    one = torch.zeros(n, 1, 1, dtype=torch.float64)
    (tail,) = tails.fit(torch.from_numpy(y), torch.ones(n).double(), one, one + 1, one + 1)
    assert tail.share == pytest.approx(0.05, rel=0.25)  # the grid's step is a fifth
    assert tail.width == pytest.approx(6.0, rel=0.15)


def test_rows_count_as_often_as_they_say():
    loc, scale, weights = mixtures(rows=40)
    y = torch.randn(40, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 3
    counts = torch.arange(40, dtype=torch.float64) % 3
    again = torch.arange(40).repeat_interleave(counts.long())
    twice = tails.fit(y[again], torch.ones(len(again)).double(), loc[again], scale[again], weights[again])
    assert tails.fit(y, counts, loc, scale, weights) == twice


def test_a_member_that_is_never_far_off_keeps_a_thin_tail():
    n = 500
    y = torch.from_numpy(stats.norm.ppf((np.arange(n) + 0.5) / n))
    one = torch.zeros(n, 1, 1, dtype=torch.float64)
    (tail,) = tails.fit(y, torch.ones(n).double(), one, one + 1, one + 1)
    assert tail.share < 0.003


def predictive(kind, numbers):
    rows = len(numbers[0])
    return Predictive(kind, numbers, torch.full((rows,), 3), torch.zeros(rows, 2, dtype=torch.float64))


def test_normals_are_as_wide_as_the_mixtures_with_their_tails():
    members, known = (Member(0, 0, 0), Member(1, 0, 0)), {(0, 0): Tail(0.1, 3.0), (1, 0): Tail(0.02, 8.0)}
    mixture = predictive(MixtureCredalSet, mixtures())
    after = mixture.with_tails(members, known).in_form("normal")
    before = mixture.in_form("normal").with_tails(members, known)
    assert after.kind is before.kind is NormalCredalSet
    for one, other in zip(after.numbers, before.numbers, strict=True):
        torch.testing.assert_close(one, other)


def test_noise_and_doubt_of_a_member_with_a_tail_are_its_entropy():
    """The wide Normal is one more draw of the parameters, so its entropy is noise."""
    numbers = mixtures(rows=1)
    noise = (numbers[2] * tails.normal_entropy(numbers[1])).sum(-1)
    members, known = (Member(0, 0, 0), Member(1, 0, 0)), {(0, 0): Tail(0.1, 3.0)}
    own = Predictive(MixtureCredalSet, numbers, torch.tensor([3]), noise).with_tails(members, known)
    loc, scale, weights = (t[0, 0].numpy() for t in own.numbers)
    assert own.noise[0, 0] == pytest.approx(weights @ stats.norm(0, scale).entropy())
    assert own.noise[0, 1] == noise[0, 1]  # who has no tail stays as it was
    split = own.credal_set(members, None).decomposition()

    def surprise(y):
        density = weights @ stats.norm(loc, scale).pdf(y)
        return -density * np.log(density)

    whole = integrate.quad(surprise, -30, 30, points=[-2, 0, 2], limit=500)[0]
    assert split.noise[0, 0] + split.doubt[0, 0] == pytest.approx(whole, rel=1e-6)


@pytest.fixture(scope="module")
def pair():
    """The same model with and without tails."""
    settings = {
        "steps": 120,
        "architectures": ((8,),),
        "noise": "learned",
        "random_state": 0,
        "plausible": 0.0,
    }
    with_tails = cbdl.CredalRegressor(**settings).fit(X, Y)
    model = with_tails.model_
    plain = cbdl.CBDL(model.priors, model.likelihoods, model.method, seed=0, dtype=model.dtype, verbose=False)
    return with_tails, plain.fit(X, Y, folds=5)


def test_a_fit_finds_tails_from_rows_that_are_left_out(pair):
    own, plain = pair
    assert set(own.model_.tails) == {(m.k, m.s) for m in own.model_.learned.members}
    assert not plain.tails
    left = own.model_.left_out()
    assert left.tails == own.model_.tails
    y = torch.from_numpy(np.asarray(Y))[left.rows]
    torch.testing.assert_close(left.score, tails.log_density(y, *left.predictive.numbers))
    assert (left.score.mean(0) > plain.left_out().score.mean(0)).all()  # better on the rows that decided
    draws = DRAWS  # as many as are kept, where fewer are
    assert own.predict_credal(X[:2]).loc.shape[-1] == 1 + plain.predict(X[:2], draws).loc.shape[-1]


def test_an_outcome_that_is_far_off_costs_little(pair):
    own, plain = pair
    # the data are in [-1, 1] with noise of about 1 that the outliers have taught
    strange = np.array([30.0])
    assert nll(own.predict_credal(X[:1]), strange) < nll(plain.predict(X[:1], 32), strange) / 3


def test_floor_and_automatic_draws_do_not_see_the_tail(pair):
    own, plain = pair
    with_tails, without = own.model_.predict(X[:3], 32), plain.predict(X[:3], 32)
    np.testing.assert_allclose(with_tails.floor, without.floor, rtol=0.1)
    np.testing.assert_allclose(own.model_.predict(X[:3], "auto").weights.sum(-1), 1, rtol=1e-12)


def test_tails_are_saved_and_a_dropped_member_takes_its_own_with_it(pair, tmp_path):
    own, _ = pair
    own.model_.save(tmp_path / "model")
    back = cbdl.load(tmp_path / "model")
    assert back.tails == own.model_.tails
    np.testing.assert_allclose(back.predict(X[:3]).scale, own.model_.predict(X[:3]).scale, rtol=1e-9)
    assert set(back.drop([(0, 0)]).tails) == set(own.model_.tails) - {(0, 0)}


def test_weights_cannot_follow_folds(pair):
    with pytest.raises(ValueError, match="left out by folds"):
        pair[0].model_.left_out("weights")
