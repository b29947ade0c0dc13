"""The floor is what identical members with independent draws show, which is simulated here."""

import itertools
import math

import numpy as np
import pytest
import torch

import cbdl
from cbdl.bayes.pooling import pooled, signal
from cbdl.credal import floor as module
from cbdl.credal.floor import class_floor, known, line_floor, normal_floor, weightings

PROMISE = 0.25
"""The mean floor over rows is within this of the mean epistemic uncertainty of identical members."""


def noise(source, rows, members, draws, size, antithetic):
    """Standard Normal numbers (rows, members, draws, size), in pairs (eps, -eps) or independent."""
    eps = torch.randn(rows, members, (draws + 1) // 2, 2, size, generator=source, dtype=torch.float64)
    if antithetic:
        eps[..., 1, :] = -eps[..., 0, :]
    return eps.flatten(2, 3)[:, :, :draws]


def epistemic(credal_set):
    return torch.as_tensor(credal_set.uncertainty().epistemic)


def ratio(floor, truth):
    """Ratio of means, and three standard errors of it."""
    share = [float(x.std() / x.mean()) / math.sqrt(len(x)) for x in (floor, truth)]
    value = float(floor.mean() / truth.mean())
    return value, 3 * value * math.hypot(*share)


def class_ratio(J, centres, spread, antithetic, n, m, rows, long_tails=False):
    source = torch.Generator().manual_seed(7 * n + m)
    centre = centres * torch.randn(rows, 1, 1, J, generator=source, dtype=torch.float64)

    def probabilities(members):
        eps = noise(source, rows, members, n, J, antithetic)
        if long_tails:
            eps = eps * (0.8 * noise(source, rows, members, n, 1, False)[:, :, ::2]).exp().repeat_interleave(
                2, 2
            )
        return (centre + spread * eps).softmax(-1)

    truth = epistemic(cbdl.CategoricalCredalSet(probabilities(m).mean(2)))
    averages = weightings(n, antithetic) @ probabilities(1)
    floor = class_floor(averages.expand(-1, m, -1, -1), torch.full((rows,), n), paired=antithetic)
    return ratio(floor, truth)


def line_draws(source, rows, members, n, spread, wide, antithetic):
    loc, scale = noise(source, rows, members, n, 2, antithetic).unbind(-1)
    return spread * loc, (wide * scale).exp()


def line_ratio(form, spread, wide, antithetic, n, m, rows):
    source = torch.Generator().manual_seed(7 * n + m)
    loc, scale = line_draws(source, rows, m, n, spread, wide, antithetic)
    if form == "mixture":
        truth = epistemic(cbdl.MixtureCredalSet(loc, scale))
    else:
        variance = (scale.square() + loc.square()).mean(2) - loc.mean(2).square()
        truth = epistemic(cbdl.NormalCredalSet(loc.mean(2), variance.sqrt()))
    one = line_draws(source, 8 * rows, 1, n, spread, wide, antithetic)
    loc, scale = (t.expand(-1, m, -1) for t in one)
    draws = torch.full((8 * rows,), n)
    if form == "normal":
        return ratio(normal_floor(loc, scale, draws, paired=antithetic), truth)
    return ratio(line_floor(loc, scale, torch.full_like(loc, 1 / n), draws, paired=antithetic), truth)


@pytest.mark.parametrize(
    ("J", "centres", "spread", "n", "m", "antithetic"),
    [
        (2, 1.0, 1.0, 8, 6, True),
        (3, 0.0, 0.3, 20, 4, True),  # at the entropy's maximum, where its gradient is all noise
        (3, 0.0, 0.3, 6, 4, True),
        (3, 0.0, 0.3, 4, 4, False),
        (3, 4.0, 3.0, 20, 4, True),  # near vertices, with large noise
        (3, 4.0, 3.0, 5, 4, False),
        (10, 0.0, 3.0, 6, 4, True),
        (10, 1.0, 0.3, 4, 12, False),
        (10, 1.0, 0.3, 6, 12, True),
        (10, 4.0, 1.0, 20, 2, True),
        (10, 4.0, 1.0, 20, 2, False),
        (100, 0.0, 1.0, 7, 4, False),
    ],
)
def test_the_class_floor_is_what_identical_members_show(J, centres, spread, n, m, antithetic):
    value, error = class_ratio(J, centres, spread, antithetic, n, m, rows=300)
    assert abs(value - 1) < PROMISE + error


@pytest.mark.parametrize("centres", [0.0, 4.0])
def test_the_class_floor_is_near_for_posteriors_with_long_tails(centres):
    value, error = class_ratio(3, centres, 0.3, True, 64, 4, rows=200, long_tails=True)
    assert abs(value - 1) < PROMISE + error


@pytest.mark.parametrize(
    ("J", "centres", "spread", "n", "members", "chains"),
    [
        (2, 1.0, 1.0, 32, 1, 4),
        (2, 1.0, 1.0, 32, 3, 4),
        (3, 1.0, 1.0, 50, 2, 4),
        (6, 2.0, 2.0, 50, 1, 4),
        (10, 1.0, 0.3, 100, 2, 8),
    ],
)
def test_the_class_floor_of_pooled_chains_is_what_identical_chains_show(
    J, centres, spread, n, members, chains
):
    """What little pooling leaves is skewed, and known to a factor; the floor of members is as good as ever."""
    rows, source = 400, torch.Generator().manual_seed(n + J)
    centre = centres * torch.randn(rows, 1, 1, J, generator=source, dtype=torch.float64)

    def probabilities(count):
        return (centre + spread * noise(source, rows, count, n, J, False)).softmax(-1)

    drawn = probabilities(members * chains)
    probs, variance = drawn.mean(2), drawn.var(2, correction=0).sum(-1)
    truth = epistemic(cbdl.CategoricalCredalSet(pooled(probs, signal(probs, variance, n, chains))))
    averages = weightings(n, False) @ probabilities(members * chains)
    floor = class_floor(averages, torch.full((rows,), n), paired=False, pooled=chains)
    plain = class_floor(averages, torch.full((rows,), n), paired=False)
    value, error = ratio(floor, truth)
    assert abs(math.log(value)) < math.log(1.6) + error
    assert float(floor.mean()) < 0.5 * float(plain.mean())


@pytest.mark.parametrize("antithetic", [True, False])
@pytest.mark.parametrize("spread", [0.05, 2.0])
@pytest.mark.parametrize("form", ["mixture", "normal"])
def test_the_floor_on_the_line_is_what_identical_members_show(form, spread, antithetic):
    value, error = line_ratio(form, spread, 0.3, antithetic, n=20, m=4, rows=40)
    assert abs(value - 1) < PROMISE + error


def test_the_floor_of_normals_in_several_dimensions_is_what_identical_members_show():
    source, rows, n, m, d = torch.Generator().manual_seed(0), 60, 12, 4, 3
    eps = noise(source, rows, m, n, 2 * d, True)
    loc, scale = 0.5 * eps[..., :d], (0.3 * eps[..., d:]).exp()
    deviation = (scale.square().mean(2) + loc.var(2, unbiased=False)).sqrt()
    truth = epistemic(cbdl.DiagonalNormalCredalSet(loc.mean(2), deviation))
    floor = normal_floor(loc, scale, torch.full((rows,), n))
    value, error = ratio(floor, truth)
    assert abs(value - 1) < PROMISE + error


@pytest.mark.parametrize("paired", [True, False])
def test_one_member_has_no_floor_and_few_draws_or_a_lonely_one_cannot_show_it(paired):
    """Two pairs report up to 1.6 times the truth at the entropy's maximum, a draw without its partner 2.6."""
    source = torch.Generator().manual_seed(0)
    for n in (1, 2, 3, 4, 5, 6, 7, 20, 21):
        p = noise(source, 5, 2, n, 3, paired).softmax(-1)
        averages, draws = weightings(n, paired) @ p, torch.full((5,), n)
        floor = class_floor(averages, draws, paired=paired)
        shown = n in (6, 20) if paired else n >= 4
        assert known(n, paired) == shown
        assert (floor > 0).all() if shown else floor.isnan().all()
        assert (class_floor(averages[:, :1], draws, paired=paired) == 0).all()


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 20, 31, 64, 201])
def test_weightings_average_all_draws_and_disjoint_runs_of_whole_pairs(n, paired):
    weights = weightings(n, paired)
    assert len(weights) == 1 + min((n + 1) // 2 if paired else n, module.GROUPS)
    torch.testing.assert_close(weights.sum(1), torch.ones(len(weights), dtype=torch.float64))
    assert (weights[1:] > 0).sum(0).eq(1).all()
    if paired:
        first = weights[:, : n - n % 2]
        assert torch.equal(first[:, 0::2], first[:, 1::2])


def test_equal_draws_have_no_floor_and_vertices_are_finite():
    p = torch.eye(3, dtype=torch.float64).expand(4, 2, 8, 3, 3)[..., 0, :]
    assert float(class_floor(weightings(8) @ p, torch.full((4,), 8)).abs().max()) < 1e-12
    mixed = torch.eye(3, dtype=torch.float64)[torch.randint(3, (50, 2, 8))]
    floor = class_floor(weightings(8) @ mixed, torch.full((50,), 8))
    assert floor.isfinite().all()
    assert (floor >= 0).all()
    loc, scale = torch.zeros(3, 2, 8, dtype=torch.float64), torch.ones(3, 2, 8, dtype=torch.float64)
    draws = torch.full((3,), 8)
    assert float(line_floor(loc, scale, scale / 8, draws).max()) < 1e-12
    assert float(normal_floor(loc, scale, draws).max()) < 1e-12


def test_rows_with_fewer_draws_and_other_batches_change_nothing(monkeypatch):
    source, counts = torch.Generator().manual_seed(0), [6, 20, 3, 40, 20]
    loc, scale = line_draws(source, len(counts), 3, 40, 0.5, 0.3, True)
    p = noise(source, len(counts), 3, 40, 4, True).softmax(-1)
    draws, weights = torch.tensor(counts), torch.zeros_like(loc)
    averages = torch.zeros(len(counts), 3, len(weightings(40)), 4, dtype=torch.float64)
    for i, n in enumerate(counts):
        weights[i, :, :n], loc[i, :, n:], scale[i, :, n:] = 1 / n, 0, 1
        averages[i, :, : len(weightings(n))] = weightings(n) @ p[i, :, :n]
    monkeypatch.setattr(module, "_CHUNK", 1)
    for floor, values in (
        (class_floor, (averages,)),
        (line_floor, (loc, scale, weights)),
        (normal_floor, (loc, scale)),
    ):
        together = floor(*values, draws)
        for i, n in enumerate(counts):
            cut = [t[i : i + 1] if floor is class_floor else t[i : i + 1, :, :n] for t in values]
            alone = floor(*cut, draws[i : i + 1])
            # sums of up to 96 numbers in another order, where squares of relative noise 1e-2 nearly cancel
            torch.testing.assert_close(together[i], alone[0], rtol=1e-9, atol=1e-13, equal_nan=True)


def test_a_draw_may_be_a_mixture_of_normals():
    source = torch.Generator().manual_seed(0)
    loc, scale = line_draws(source, 30, 3, 20, 0.5, 0.3, True)
    weights, draws = torch.full_like(loc, 1 / 20), torch.full((30,), 20)
    halves = [t.repeat_interleave(2, 2) for t in (loc, scale, weights / 2)]
    whole, split = line_floor(loc, scale, weights, draws), line_floor(*halves, draws, normals=2)
    # the same mixture on other nodes: the rule's own error
    assert float((split - whole).abs().mean() / whole.mean()) < 0.1


@pytest.mark.parametrize("n", [32, 200])
def test_what_chains_differ_in_is_no_noise_of_draws_that_are_taken_from_them_in_turn(n):
    source, rows, m, chains = torch.Generator().manual_seed(n), 300, 4, 4
    far = 2 * torch.randn(rows, 1, chains, generator=source, dtype=torch.float64).repeat(1, 1, n // chains)

    def drawn(members):
        loc, scale = line_draws(source, rows, members, n, 0.5, 0.2, False)
        return loc + far, scale

    truth = epistemic(cbdl.MixtureCredalSet(*drawn(m)))
    loc, scale = (t.expand(-1, m, -1) for t in drawn(1))
    equal, draws = torch.full_like(loc, 1 / n), torch.full((rows,), n)
    value, error = ratio(line_floor(loc, scale, equal, draws, paired=False, chains=chains), truth)
    assert abs(value - 1) < PROMISE + error
    assert torch.isnan(line_floor(loc, scale, equal, torch.full((rows,), 11), paired=False, chains=4)).all()


def test_the_floor_falls_with_the_root_of_the_draws_off_the_maximum():
    source = torch.Generator().manual_seed(0)
    p = (
        (torch.tensor([2.0, 0, 0]) + 0.5 * noise(source, 300, 1, 256, 3, False))
        .softmax(-1)
        .expand(-1, 4, -1, -1)
    )
    few, many = (class_floor(weightings(n) @ p[:, :, :n], torch.full((300,), n)).mean() for n in (16, 256))
    assert abs(float(few / many) / math.sqrt(16) - 1) < 0.15


@pytest.mark.slow
def test_the_class_floor_holds_in_all_regimes():
    grid = itertools.product((2, 3, 10, 100), (0.0, 1.0, 4.0), (0.1, 1.0, 3.0), (True, False))
    sizes = ((4, 4), (5, 6), (6, 12), (8, 2), (20, 6), (64, 4), (200, 4))
    bad, ratios = [], {}
    for (J, centres, spread, antithetic), (n, m) in itertools.product(grid, sizes):
        if J == 2 and centres == 0 and antithetic:
            continue  # pairs cancel: the truth is 0
        if not known(n, antithetic):
            continue
        rows = max(80, min(400, int(1e6 / (J * n))))
        value, error = class_ratio(J, centres, spread, antithetic, n, m, rows)
        ratios.setdefault(n, []).append(value)
        if abs(value - 1) > PROMISE + error:
            bad.append((J, centres, spread, antithetic, n, m, round(value, 2), round(error, 2)))
    for n, values in ratios.items():
        share = np.mean(np.abs(np.array(values) - 1) < PROMISE)
        print(
            f"{n:4d} draws: {min(values):.2f} {np.median(values):.2f} {max(values):.2f}, within: {share:.3f}"
        )
    assert not bad


@pytest.mark.slow
@pytest.mark.parametrize("form", ["mixture", "normal"])
def test_the_floor_on_the_line_holds_in_all_regimes(form):
    bad, ratios = [], {}
    sizes = ((4, 4), (6, 4), (8, 6), (20, 2), (20, 12), (64, 4))
    grid = itertools.product((0.05, 0.5, 2.0), (0.0, 0.3), (True, False))
    for (spread, wide, antithetic), (n, m) in itertools.product(grid, sizes):
        if not known(n, antithetic):
            continue
        value, error = line_ratio(form, spread, wide, antithetic, n, m, rows=50)
        ratios.setdefault(n, []).append(value)
        if abs(value - 1) > PROMISE + error:
            bad.append((spread, wide, antithetic, n, m, round(value, 2), round(error, 2)))
    for n, values in ratios.items():
        print(f"{form} {n:4d} draws: {min(values):.2f} {np.median(values):.2f} {max(values):.2f}")
    assert not bad


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "n"),
    [
        (cbdl.MeanField(epochs=30), 6),
        (cbdl.MeanField(epochs=30), 8),
        (cbdl.MeanField(epochs=30), 20),
        (cbdl.Laplace(epochs=30), 8),
        (cbdl.Ensemble(restarts=64, epochs=15), 4),  # drawn without replacement, few of many
        (cbdl.Ensemble(restarts=64, epochs=15), 8),
    ],
)
def test_the_floor_of_a_trained_network_is_what_independent_draws_of_it_show(method, n):
    rng, m = np.random.default_rng(0), 5
    X = rng.normal(size=(120, 2))
    model = cbdl.CBDL(
        priors=[cbdl.priors.Normal(0, 1)],
        likelihoods=[cbdl.likelihoods.Categorical(cbdl.nets.mlp(2, 3, (8,)))],
        method=method,
        verbose=False,
    ).fit(X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5).astype(int))
    ((cohort, posterior),) = [(part.cohort, part.posterior) for part in model._learned.parts.values()]
    paired = posterior.distinct is None
    x = torch.as_tensor(rng.normal(size=(200, 2)) * 1.5, dtype=torch.float32)

    def probabilities(stream):
        outputs = cohort.forward(posterior.sample(n, stream, 0), x, posterior.buffers)[0]
        return outputs.detach().double().softmax(-1).movedim(1, 0)  # (rows, draws, classes)

    floors, truths = [], []
    for s in range(12):
        members = torch.stack([probabilities(1000 * s + i) for i in range(m)], 1)
        truths.append(epistemic(cbdl.CategoricalCredalSet(members.mean(2))).mean())
        floor = class_floor(weightings(n, paired) @ members, torch.full((200,), n), paired=paired)
        floors.append(floor.mean())
    value, error = ratio(torch.stack(floors), torch.stack(truths))
    print(type(method).__name__, n, f"{value:.2f} +- {error / 3:.2f}")
    assert abs(value - 1) < PROMISE + error
