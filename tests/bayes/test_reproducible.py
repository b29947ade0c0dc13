"""A member is a function of (seed, k, s): how members are grouped changes nothing but rounding."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from zoo import ZOO, Factory

from cbdl.bayes import data, likelihoods, priors
from cbdl.bayes._random import NormalStream, seeded
from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.methods.divergences import Renyi
from cbdl.bayes.methods.mean_field import MeanField, MeanFieldPosterior
from cbdl.bayes.train import Run
from cbdl.engines import local

PRIORS: list[priors.PriorLike] = [priors.Normal(0.0, 1.0), priors.StudentT(4.0, 0.5, 2.0)]


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))


def large() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 9), nn.ReLU(), nn.Linear(9, 5), nn.ReLU(), nn.Linear(5, 1))


def regression() -> data.Data:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(60, 3, generator=source)
    return data.prepare(x, x.sum(1).sin(), space="real", dtype=torch.float64)


@pytest.mark.parametrize(
    "method",
    [
        MeanField(epochs=5, batch_size=16, draws=2, clip=0.5),
        MeanField(epochs=5, batch_size=16, divergence=Renyi(0.5)),
    ],
    ids=["kl", "renyi"],
)
def test_two_by_two_takes_the_same_steps_as_four_separate_runs(method: MeanField) -> None:
    """Two cohorts of two members, 20 steps, against each member alone: float64, to 1e-8."""
    made = regression()
    whole = local.tasks(PRIORS, [likelihoods.Normal(small), likelihoods.Normal(large)], seed=7)
    together = local.fit(whole, made, method, Run())
    assert made.steps(16) * 5 == 20
    for task, (_, posterior) in zip(whole, together, strict=True):
        for i, member in enumerate(task.members):
            ((_, alone),) = local.fit([replace(task, members=(member,))], made, method, Run())
            for name, value in alone.state().items():
                torch.testing.assert_close(posterior.state()[name][i : i + 1], value, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["batch norm", "conv2d", "attention", "dropout", "lstm"])
def test_any_network_is_trained_the_same_alone_and_in_a_cohort(name: str) -> None:
    factory, x = ZOO[name]
    made = data.prepare(x, torch.tensor([0, 1, 0, 1, 1, 0]), space="classes", dtype=torch.float64)
    method = MeanField(epochs=6, batch_size=3, lr=1e-2)
    (task,) = local.tasks(PRIORS, [likelihoods.Categorical(factory)])
    ((_, both),) = local.fit([task], made, method, Run())
    ((_, one),) = local.fit([replace(task, members=task.members[1:])], made, method, Run())
    for n, value in one.state().items():
        torch.testing.assert_close(both.state()[n][1:], value, rtol=0, atol=1e-8)


def test_identical_priors_and_seeds_give_identical_members() -> None:
    made = regression()
    members = [Member(0, 0, 42), Member(1, 0, 42), Member(2, 0, 43)]
    cohort = Cohort.of([priors.Normal()] * 3, likelihoods.Normal(small), made, members=members)
    posterior = MeanField(epochs=5).fit(cohort, made, Run())
    for value in posterior.state().values():
        # to rounding: where a member stands in a batched product may decide which kernel computes it
        torch.testing.assert_close(value[0], value[1], rtol=1e-9, atol=1e-9)
        assert not torch.allclose(value[0], value[2], rtol=1e-9, atol=1e-9)


def fit(factory: Factory, seed: int = 0) -> MeanFieldPosterior:
    made = regression()
    cohort = Cohort.of(PRIORS, likelihoods.Normal(factory), made, seed=seed)
    return MeanField(epochs=3).fit(cohort, made, Run(seed=seed))


def test_the_same_seed_gives_the_same_tensors_and_another_seed_others() -> None:
    torch.manual_seed(1)
    a = fit(small)
    torch.manual_seed(2)
    b, c = fit(small), fit(small, seed=1)
    assert all(torch.equal(a.state()[n], b.state()[n]) for n in a.state())
    assert not torch.equal(a.mu, c.mu)


def test_minibatches_are_a_function_of_seed_and_epoch_and_cover_every_row() -> None:
    made = regression()

    def rows(seed: int, epoch: int, start: int = 0) -> list[Tensor]:
        return [b.x for b in made.epoch(seed, epoch, 16, start)]

    first = rows(0, 0)
    assert all(torch.equal(a, b) for a, b in zip(first, rows(0, 0), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(first[2:], rows(0, 0, 2), strict=True))
    assert not torch.equal(first[0], rows(0, 1)[0])
    assert not torch.equal(first[0], rows(1, 0)[0])
    assert torch.equal(torch.cat(first).sort(0).values, made.x.sort(0).values)
    assert {len(b) for b in first} == {15}


def test_large_data_is_gathered_batch_by_batch_in_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    made = regression()
    before = list(made.epoch(0, 3, 16))
    monkeypatch.setattr("cbdl.ground.memory.limit", lambda: 0)
    for a, b in zip(before, made.epoch(0, 3, 16), strict=True):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.y, b.y)


@pytest.mark.parametrize("size", [5, 70_000])
def test_noise_is_a_function_of_the_members_seed_and_the_step(size: int) -> None:
    kind = {"antithetic": False, "device": torch.device("cpu"), "dtype": torch.float32}
    pair = NormalStream((1, 2), 2, size, **kind)  # type: ignore[arg-type]
    alone = NormalStream((2,), 2, size, **kind)  # type: ignore[arg-type]
    for step in (0, 1, pair.block - 1, pair.block, 3 * pair.block + 1):
        assert torch.equal(pair(step)[1:], alone(step))
    assert not torch.equal(pair(0)[0], pair(0)[1])
    assert not torch.equal(alone(0), alone(1))
    mirrored = NormalStream((2,), 4, size, **{**kind, "antithetic": True})  # type: ignore[arg-type]
    assert torch.equal(mirrored(3)[:, :2], -mirrored(3)[:, 2:])
    everything = torch.cat([alone(s).flatten() for s in range(4000 // size + 1)])
    assert abs(float(everything.mean())) < 0.1
    assert float(everything.std()) == pytest.approx(1, abs=0.1)


def test_a_seeded_block_draws_what_torch_draws_with_that_seed_and_leaves_no_trace() -> None:
    torch.manual_seed(1)
    wanted, after = torch.rand(3), torch.rand(3)
    torch.manual_seed(1)
    torch.rand(3)
    with seeded(1, torch.device("cpu")):
        inside = torch.rand(3)
    assert torch.equal(inside, wanted)
    assert torch.equal(torch.rand(3), after)
