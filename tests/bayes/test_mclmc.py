"""MCLMC: the integrator, the stationary distribution where it is known, noise that is sampled, chains put together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conjugate import design, problem
from resuming import assert_resumes
from scipy.integrate import solve_ivp
from torch import Tensor, nn

import cbdl
from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import prepare
from cbdl.bayes.diagnostics import CollapseWarning, diagnose
from cbdl.bayes.learned import Part
from cbdl.bayes.methods import _chains, mclmc
from cbdl.bayes.methods._chains import FAR, ChainsPosterior
from cbdl.bayes.methods._microcanonical import KNOWN, Motion, Tuning, move, turn
from cbdl.bayes.methods.mclmc import MCLMC, MCLMCRecord
from cbdl.bayes.methods.protocol import Method, Posterior
from cbdl.bayes.mixing import mixing
from cbdl.bayes.rows import Data, TrainingData
from cbdl.bayes.train import Run
from cbdl.engines import Local, Task, local, tasks, train, without_folds
from cbdl.engines.split import bring, together


def unit(*shape: int, seed: int = 0) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return nn.functional.normalize(torch.randn(*shape, generator=source, dtype=torch.float64), dim=1)


# --- the integrator -----------------------------------------------------------------------------------------


def test_a_turn_is_the_exact_flow_under_a_constant_gradient() -> None:
    """du/dt = -(1 - u u') g / (d - 1), and the kinetic energy grows by -(u . g) dt."""
    d, time = 5, 0.7
    u, g = unit(1, d), 3 * unit(1, d, seed=1)

    def flow(_: float, state: np.ndarray) -> np.ndarray:
        direction = state[:d]
        along = direction @ g[0].numpy()
        return np.append(-(g[0].numpy() - along * direction) / (d - 1), -along)

    end = solve_ivp(flow, (0, time), np.append(u[0].numpy(), 0.0), rtol=1e-11, atol=1e-13).y[:, -1]
    after, gain = turn(u, g, torch.tensor([time], dtype=torch.float64))
    np.testing.assert_allclose(after[0].numpy(), end[:d], atol=1e-9)
    np.testing.assert_allclose(gain.item(), end[d], atol=1e-9)
    assert after.norm(dim=1).item() == pytest.approx(1, abs=1e-12)


def test_the_energy_error_of_a_step_is_of_third_order() -> None:
    """A symmetric scheme of second order: half the step, an eighth of the error."""

    def potential(x: Tensor) -> tuple[Tensor, Tensor]:
        return (0.25 * x**4 + 0.5 * x.square()).sum(1), x**3 + x

    place = unit(1, 6, seed=2)
    start = Motion(place, unit(1, 6, seed=3), *potential(place))
    scales = unit(1, 6, seed=4).abs() + 0.5
    errors = [
        move(start, torch.tensor([h], dtype=torch.float64), potential, scales=scales)[1].item()
        for h in (0.1, 0.05, 0.025)
    ]
    assert abs(errors[0]) > 1e-9
    assert errors[0] / errors[1] == pytest.approx(8, rel=0.2)
    assert errors[1] / errors[2] == pytest.approx(8, rel=0.1)


def test_a_step_in_scales_is_a_step_of_what_they_divide() -> None:
    """The motion of x with scales s under U(x) is that of x / s without them under U(s (x / s))."""
    scales, size = unit(1, 6, seed=4).abs() + 0.5, torch.tensor([0.3], dtype=torch.float64)

    def potential(x: Tensor) -> tuple[Tensor, Tensor]:
        return (0.25 * x**4 + 0.5 * x.square()).sum(1), x**3 + x

    def divided(z: Tensor) -> tuple[Tensor, Tensor]:
        value, slope = potential(scales * z)
        return value, scales * slope

    place, direction = unit(1, 6, seed=2), unit(1, 6, seed=3)
    ours, error = move(Motion(place, direction, *potential(place)), size, potential, scales=scales)
    z = place / scales
    theirs, wanted = move(Motion(z, direction, *divided(z)), size, divided, scales=torch.ones_like(z))
    torch.testing.assert_close(ours.place, scales * theirs.place)
    torch.testing.assert_close(ours.direction, theirs.direction)
    torch.testing.assert_close(error, wanted)


def test_steep_coordinates_get_small_scales() -> None:
    """Slopes of a Normal are as steep as its deviations are small; one that is level everywhere stays within bounds."""
    place = torch.zeros(2, 4, dtype=torch.float64)
    tuning, slopes = Tuning(place, 1000), torch.tensor([100.0, 1.0, 0.01, 0.0], dtype=torch.float64)
    source = torch.Generator().manual_seed(0)
    for number in range(int(1000 * KNOWN)):
        assert bool((tuning.scales == 1).all())
        noise = torch.randn(2, 4, generator=source, dtype=torch.float64)
        tuning.learn(number, place, noise * slopes, torch.full((2,), 0.1, dtype=torch.float64))
    ratios = (tuning.scales[:, :1] / tuning.scales).log10()
    torch.testing.assert_close(
        ratios, torch.tensor([0.0, -1.0, -2.0, -2.0]).double().expand(2, -1), atol=0.15, rtol=0
    )
    torch.testing.assert_close(tuning.scales.log().mean(1), torch.zeros(2, dtype=torch.float64))


def test_a_short_warm_up_leaves_coordinates_as_they_are() -> None:
    place = torch.zeros(1, 4, dtype=torch.float64)
    tuning = Tuning(place, 100)
    for number in range(100):
        tuning.learn(number, place, place + 9.0, torch.full((1,), 0.1, dtype=torch.float64))
    assert bool((tuning.scales == 1).all())


# --- where the posterior is known -----------------------------------------------------------------------------


def test_draws_follow_the_conjugate_posterior() -> None:
    """150 chains; without a test of acceptance a few per cent of bias remain (energy variance 0.01 a coordinate)."""
    cohort, data, truth = problem()
    posterior = MCLMC(chains=150, draws=10, thin=15, warmup=400, optimise=100, double=True).fit(
        cohort, data, Run()
    )
    points = posterior.points.flatten(1, 2)
    sd = truth.covariance.diagonal(dim1=1, dim2=2).sqrt()
    assert ((points.mean(1) - truth.mean) / sd).abs().max() < 0.1
    assert (points.std(1) / sd - 1).abs().max() < 0.1
    away = (points - points.mean(1, keepdim=True)) / sd.unsqueeze(1)
    correlation = torch.einsum("kni,knj->kij", away, away) / points.shape[1]
    wanted = truth.covariance / (sd.unsqueeze(1) * sd.unsqueeze(2))
    assert (correlation - wanted).abs().max() < 0.15
    record = posterior.record
    assert isinstance(record, MCLMCRecord)
    assert 1e-4 < float(record.energy_variance.mean()) < 0.05
    assert record.rhat.max() < 1.1


def test_an_optimisation_ends_in_the_posterior_not_at_its_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """(theta - mean)' precision (theta - mean) is P on average under the posterior, and 0 at the mode."""

    def distance(calm: float) -> Tensor:
        monkeypatch.setattr(mclmc, "CALM", calm)
        cohort, data, truth = problem()
        sampler = mclmc.Sampler(
            MCLMC(chains=100, draws=1, thin=1, warmup=20, optimise=1000, double=True), cohort, data
        )
        for step in range(1000):
            _, gradient = sampler.gradient(next(data.epoch(0, step, 24)), step, 1000)
            sampler.step(sampler.variables, gradient, 3e-2, step)
        away = sampler.variables.view(*sampler.layout, -1) - truth.mean.unsqueeze(1)
        precision = torch.linalg.inv(truth.covariance)
        return (torch.einsum("kci,kij,kcj->kc", away, precision, away) / away.shape[-1]).mean(1)

    shaken = distance(mclmc.CALM)
    # 100 chains of 4 parameters: three standard errors are 0.2, and steps of some length add a little
    assert shaken.min() > 0.8
    assert shaken.max() < 1.5
    assert distance(1.0).max() < 0.01


def test_the_noise_is_sampled_with_the_rest() -> None:
    """The posterior of the log scale, by a grid: given the scale everything else is conjugate."""
    cohort, data, _ = problem(scale="learned")
    posterior = MCLMC(chains=100, draws=10, thin=15, warmup=400, optimise=100, double=True).fit(
        cohort, data, Run()
    )
    loc, spread = (float(v) for v in cohort.likelihood.noise_prior(cohort.unit))
    grid = torch.linspace(math.log(0.1), math.log(3), 400, dtype=torch.float64)
    x, y = design(data.x), data.y
    joint = cohort.prior.normal
    assert joint is not None
    for k in range(cohort.size):
        mean, cov = x @ joint[0][k], x @ torch.diag(joint[1][k].square()) @ x.T
        logs = torch.stack(
            [
                torch.distributions.MultivariateNormal(
                    mean, cov + (likelihoods.FLOOR + s.exp()) ** 2 * torch.eye(len(y), dtype=y.dtype)
                ).log_prob(y)
                - 0.5 * ((s - loc) / spread) ** 2
                for s in grid
            ]
        )
        weight = logs.softmax(0)
        wanted = (weight * grid).sum()
        deviation = (weight * (grid - wanted).square()).sum().sqrt()
        seen = posterior.noise_points[k].flatten()
        assert abs(float((seen.mean() - wanted) / deviation)) < 0.15
        assert float(seen.std() / deviation) == pytest.approx(1, abs=0.12)


def test_with_minibatches_the_mean_stays_and_the_spread_is_of_the_right_size() -> None:
    """The noise of minibatches is not corrected: deviations within a third of the truth are what is promised."""
    cohort, data, truth = problem(1000)
    posterior = MCLMC(
        chains=20, draws=10, thin=25, warmup=500, optimise=200, batch_size=250, double=True
    ).fit(cohort, data, Run())
    points = posterior.points.flatten(1, 2)
    sd = truth.covariance.diagonal(dim1=1, dim2=2).sqrt()
    assert ((points.mean(1) - truth.mean) / sd).abs().max() < 0.3
    assert (points.std(1) / sd).log().abs().max() < math.log(1.5)


# --- chains ---------------------------------------------------------------------------------------------------


def short() -> MCLMC:
    return MCLMC(chains=3, draws=4, thin=2, warmup=20, optimise=5, double=True)


def test_any_few_draws_come_from_all_chains_and_bring_their_noise() -> None:
    cohort, data, _ = problem(scale="learned")
    posterior = short().fit(cohort, data, Run())
    theta, noise = posterior.sample(24, seed=4), posterior.noises(24, seed=4)
    flat = posterior.points.flatten(1, 2)
    place = (theta.unsqueeze(2) == flat.unsqueeze(1)).all(-1).long().argmax(-1)
    assert torch.equal(noise, posterior.noise_points.flatten(1, 2).take_along_dim(place.unsqueeze(-1), 1))
    assert all(len(set((own // 4).tolist())) == 3 for own in place[:, :3])
    assert all(sorted(own.tolist()) == list(range(12)) for own in place[:, :12])
    # a part of the draws, as a prediction in parts takes them
    assert torch.equal(posterior.sample(5, seed=4, start=7), theta[:, 7:12])
    assert torch.equal(posterior.noises(5, seed=4, start=7), noise[:, 7:12])


def test_chains_that_are_put_together_keep_their_places_and_their_noise() -> None:
    cohort, data, _ = problem(scale="learned")
    apart = MCLMC(chains=1, draws=4, thin=1, warmup=20, optimise=0, double=True).fit(
        cohort.only([0, 0, 1, 1]), data, Run()
    )
    # members of the same pair have the same stream here: tell them apart
    mark = torch.arange(4.0, dtype=torch.float64).view(4, 1, 1, 1)
    apart = replace(apart, points=apart.points + mark, noise_points=apart.noise_points + mark)
    gathered = apart.gather([[0, 1], [2, 3]])
    assert torch.equal(gathered.points, apart.points[:, 0].unflatten(0, (2, 2)))
    assert torch.equal(gathered.noise_points, apart.noise_points[:, 0].unflatten(0, (2, 2)))


class Apart:
    """An engine that trains every chain alone, one after the other, as workers would."""

    def train(
        self, todo: Sequence[Task], data: TrainingData, method: Method, run: Run, **_: object
    ) -> list[tuple[Cohort, Posterior]]:
        (task,) = todo
        pieces = local.fit([replace(task, members=(m,)) for m in task.members], data, method, run)
        cohort = task.cohort(data)
        return [(cohort, together(method, cohort, [bring(posterior) for _, posterior in pieces]))]


def work() -> tuple[list[Task], TrainingData]:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(30, 2, generator=source, dtype=torch.float64)
    data = prepare(x, x.sum(1), space="real", dtype=torch.float64)
    return tasks([priors.Normal(), priors.Normal(0, 3)], [likelihoods.Normal(tiny)], seed=5), data


def test_chains_that_are_trained_apart_make_the_same_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_chains, "FAR", math.inf)  # so short a run leaves some far behind
    todo, data = work()
    parts = [train(engine, todo, data, short(), Run())[0] for engine in (Local(), Apart())]
    one, other = (part.posterior for part in parts)
    assert isinstance(one, ChainsPosterior)
    assert one.points.shape == (2, 3, 4, 4 * 3 + 5)
    torch.testing.assert_close(one.points, other.state()["points"], rtol=0, atol=1e-7)
    assert parts[0].cohort.members == todo[0].members
    assert not torch.equal(one.points[:, 0], one.points[:, 1])


def test_a_member_is_made_of_its_own_chains() -> None:
    """In company as alone; without folds, too."""
    (task,), data = work()
    assert isinstance(data, Data)
    apart = data.in_folds(2, seed=0)
    (whole,) = train(Local(), [task], data, short(), Run())
    (without,) = without_folds(Local(), [task], apart, short(), Run(), folds=2)
    assert [(m.k, m.fold) for m in without.cohort.members] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert chains(without).shape[:2] == (4, 2)  # pairs of chains: one alone misjudges wide priors
    for i, member in enumerate(task.members):
        one = replace(task, members=(member,))
        (own,) = train(Local(), [one], data, short(), Run())
        torch.testing.assert_close(chains(whole)[i], chains(own)[0], rtol=0, atol=1e-7)
        (rest,) = without_folds(Local(), [one], apart, short(), Run(), folds=2)
        places = [j for j, m in enumerate(without.cohort.members) if m.k == member.k]
        assert [without.cohort.members[j] for j in places] == list(rest.cohort.members)
        torch.testing.assert_close(chains(without)[places], chains(rest), rtol=0, atol=1e-7)


def test_an_optimisation_goes_on_in_the_middle_of_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight rows a step, four steps an epoch: stopped after the sixth, and never stopped."""
    monkeypatch.setattr(mclmc, "SMALL", 8)
    (task,), data = work()
    cohort, method = task.cohort(data), MCLMC(chains=1, draws=2, thin=1, warmup=20, optimise=10, double=True)
    assert_resumes(method, cohort, data, tmp_path, 6)


def chains(part: Part) -> Tensor:
    found = part.posterior.chains()
    assert found is not None
    return found[0]


def tiny() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))


def test_a_chain_that_failed_gives_way_to_one_that_did_not() -> None:
    cohort, data, _ = problem()
    apart = cohort.only([0, 0, 1, 1])
    posterior = MCLMC(chains=1, draws=4, thin=1, warmup=20, optimise=0, double=True).fit(apart, data, Run())
    record = posterior.record
    assert record is not None
    record.failures.update({1: "burnt", 2: "burnt", 3: "burnt"})
    gathered = posterior.gather([[0, 1], [2, 3]])
    torch.testing.assert_close(gathered.points[0, 1], posterior.points[0, 0])
    torch.testing.assert_close(gathered.points[1, 1], posterior.points[3, 0])
    assert isinstance(gathered.record, MCLMCRecord)
    assert gathered.record.lost.tolist() == [1, 2]
    assert gathered.record.failures == {1: "burnt"}
    assert gathered.record.step_size.shape == (2, 2)


def test_a_chain_that_is_far_behind_gives_way_and_is_counted() -> None:
    cohort, data, _ = problem()
    apart = cohort.only([0, 0, 0, 1, 1, 1])
    posterior = MCLMC(chains=1, draws=4, thin=1, warmup=20, optimise=0, double=True).fit(apart, data, Run())
    record = posterior.record
    assert isinstance(record, MCLMCRecord)
    assert record.nll.shape == (6, 1)
    record.nll.copy_(torch.tensor([0.3, 0.1, 0.11 + FAR, 0.5 + FAR, 0.5, 9.0]).unsqueeze(1))
    gathered = posterior.gather([[0, 1, 2], [3, 4, 5]])
    for member, places in enumerate([(0, 1, 0), (3, 4, 3)]):
        for chain, place in enumerate(places):
            torch.testing.assert_close(gathered.points[member, chain], posterior.points[place, 0])
    assert isinstance(gathered.record, MCLMCRecord)
    assert gathered.record.lost.tolist() == [1, 1]
    assert gathered.record.failures == {}


def test_the_fit_of_a_chain_is_the_mean_over_its_steps() -> None:
    """With every step kept, it is what the draws say."""
    cohort, data, _ = problem()
    posterior = MCLMC(chains=2, draws=9, thin=1, warmup=20, optimise=0, double=True).fit(cohort, data, Run())
    assert isinstance(posterior.record, MCLMCRecord)
    points, noises = posterior.chains()
    for chain in range(2):
        nll = cohort.mean_nll(points[:, chain], noises[:, chain], posterior.buffers, data)
        torch.testing.assert_close(posterior.record.nll[:, chain], nll.mean(1))


def test_noise_that_varies_is_not_what_is_not_learned_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without patience steep parts are taken for noise, which makes them count little: they are never learned."""
    x = torch.linspace(-2, 2, 100, dtype=torch.float64).unsqueeze(1)
    y = torch.sin(3 * x[:, 0])
    data = prepare(x, y, space="real")
    made = likelihoods.Normal(cbdl.nets.mlp(1, 2, (16, 16), "silu"), scale="heteroscedastic")

    def error(patient: float) -> float:
        monkeypatch.setattr(mclmc, "PATIENT", patient)
        cohort = Cohort.of([priors.Normal(0, 4, fan_in=True)], made, data, seed=0)
        settings = MCLMC(chains=4, optimise=600, warmup=20, draws=1, thin=1)
        posterior = settings.fit(cohort, data, Run())
        points, noises = posterior.chains()
        told = cohort.describe(points[:, :, 0], noises[:, :, 0], posterior.buffers, data.x, data.targets)
        return float((told["loc"].mean(1) - y).square().mean().sqrt())

    with_patience, without = error(0.5), error(0.0)
    assert with_patience < 0.5 * without


def test_the_type_of_the_samples_does_not_show() -> None:
    """Sampled in float32, the answers have the type of the data."""
    cohort, data, _ = problem(scale="learned")
    posterior = MCLMC(chains=2, draws=4, thin=1, warmup=20, optimise=5).fit(cohort, data, Run())
    assert posterior.points.dtype == torch.float32
    assert posterior.sample(3).dtype == posterior.noises(3).dtype == posterior.noise.dtype == torch.float64


@pytest.mark.filterwarnings("ignore:members predict the same")  # by chance, on some machines
def test_diagnostics_tell_whether_chains_agree_about_predictions() -> None:
    """R-hat and effective draws are those of ArviZ for the predictions, not for parameters."""
    arviz = pytest.importorskip("arviz")
    cohort, data, _ = problem()
    posterior = MCLMC(chains=4, draws=40, thin=5, warmup=200, optimise=50, double=True).fit(
        cohort, data, Run()
    )
    found = mixing(cohort, posterior, data)
    assert found is not None
    for k in range(cohort.size):
        values = torch.einsum("cdp,np->cdn", posterior.points[k], design(data.x))
        wanted = [float(arviz.rhat(values[..., n].numpy(), method="split")) for n in range(5)]
        np.testing.assert_allclose(found.rhat[k, :5].numpy(), wanted, rtol=1e-6)
    report = diagnose([(cohort, posterior)], data, warn=False)
    # halves of 20 draws that agree perfectly have an R-hat of sqrt(19 / 20)
    assert all(0.97 < row.rhat < 1.3 and row.ess > 10 for row in report.rows)
    assert "R-hat" in str(report)
    shifted = replace(posterior, points=posterior.points + 3 * torch.arange(4.0).view(1, 4, 1, 1))
    with pytest.warns(CollapseWarning, match="do not agree about predictions"):
        apart = diagnose([(cohort, shifted)], data)
    assert min(row.rhat for row in apart.rows) > 3


# --- settings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"chains": 0}, "chains is 0"),
        ({"warmup": 3}, "warmup is 3"),
        ({"lr": 0.0}, "lr is 0"),
        ({"temperature": -1.0}, "temperature is -1"),
        ({"batch_size": 0}, "batch_size is 0"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        MCLMC(**settings)  # type: ignore[arg-type]


def test_running_statistics_cannot_be_shared_by_chains() -> None:
    data = prepare(torch.randn(20, 2), torch.randn(20), space="real")

    def normed() -> nn.Module:
        return nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))

    cohort = Cohort.of([priors.Normal()], likelihoods.Normal(normed), data)
    with pytest.raises(ValueError, match="BatchNorm1d: its running statistics"):
        MCLMC(chains=2).fit(cohort, data, Run())
