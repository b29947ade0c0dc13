"""Compiled loops: potentials and gradients against autograd in double precision, motion against an ordinary
differential equation, and when they are used at all.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch import Tensor, nn

from cbdl.bayes import compiled, likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import prepare
from cbdl.bayes.likelihoods import Likelihood
from cbdl.bayes.methods._microcanonical import Motion, move, turn
from cbdl.bayes.methods.mclmc import MCLMC, Sampler
from cbdl.bayes.rows import Batch, Data
from cbdl.bayes.wide import Space
from cbdl.ground.compiling import usable
from cbdl.nets import mlp

pytest.importorskip("numba")

NOISES = (0.5, "learned", "heteroscedastic", "classes")


def rows(count: int, features: int, noise: Any, seed: int = 0) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(seed)
    X = torch.randn(count, features, generator=source, dtype=torch.float64)
    y = torch.randn(count, generator=source, dtype=torch.float64)
    return X, torch.randint(0, 3, (count,), generator=source) if noise == "classes" else y


def model(features: int, hidden: tuple[int, ...], noise: Any, activation: str = "silu") -> Likelihood:
    outputs = {"classes": 3, "heteroscedastic": 2}.get(noise, 1)
    net = mlp(features, outputs, hidden, activation=activation)
    return likelihoods.Categorical(net) if noise == "classes" else likelihoods.Normal(net, noise)


def cohort(X: Tensor, y: Tensor, own: Likelihood, members: int = 2) -> tuple[Cohort, Data]:
    data = prepare(X, y, space=own.space, dtype=torch.float32)
    assert isinstance(data, Data)
    return Cohort.of([priors.Normal(0, 1)] * members, own, data), data


def start(own: Cohort, chains: int, seed: int = 1) -> Tensor:
    """Places (members * chains, P + Q)."""
    source = torch.Generator().manual_seed(seed)
    whole = torch.cat([own.initial, own.initial_noise], 1).repeat_interleave(chains, 0)
    return whole + 0.3 * torch.randn(whole.shape, generator=source)


def truth(
    own: Cohort, batch: Batch, place: Tensor, factor: float, patient: bool = False
) -> tuple[Tensor, Tensor]:
    """factor * NLL of every chain and its gradient, by autograd, one network after the other, in double precision."""
    size = own.layout.size
    network = own.forward.network.double()
    x, y = batch.x.double(), batch.y.double() if batch.y.is_floating_point() else batch.y
    values, slopes = [], []
    for c, at in enumerate(place.double()):
        at = at.clone().requires_grad_()
        out = torch.func.functional_call(network, own.layout.view(at[:size]), (x,))[None, None]
        noise = at[None, size:]
        density = own.likelihood.log_density(out, y, noise, own.unit.double())
        if patient:
            patience = own.likelihood.patience(out.detach(), y, noise.detach(), own.unit.double())
            density = density if patience is None else density * patience
        weight = own.weights(batch)
        weight = weight if weight.ndim < 3 else weight[c]
        nll = -factor * (density * weight.double()).sum()
        (slope,) = torch.autograd.grad(nll, at)
        values.append(nll.detach())
        slopes.append(slope)
    network.float()
    return torch.stack(values), torch.stack(slopes)


def loops(
    own: Cohort, batch: Batch, place: Tensor, factor: float, patient: bool = False
) -> tuple[Tensor, Tensor]:
    kernel = compiled.Kernel.of(own, Space())
    assert kernel is not None
    value, slope = torch.zeros(len(place)), torch.zeros_like(place)
    kernel.add(place, batch, factor, value, slope, patient=patient)
    return value, slope


def assert_equal(ours: tuple[Tensor, Tensor], truth: tuple[Tensor, Tensor]) -> None:
    for own, true in zip(ours, truth, strict=True):
        np.testing.assert_allclose(own.double(), true, rtol=2e-5, atol=2e-6 * float(true.abs().max()))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("activation", ["relu", "silu", "tanh"])
@pytest.mark.parametrize("patient", [False, True])
def test_the_gradient_is_that_of_autograd(noise: Any, activation: str, patient: bool) -> None:
    X, y = rows(150, 5, noise)
    own, data = cohort(X, y, model(5, (16, 13), noise, activation))
    (batch,) = data.parts(1000)
    place = start(own, 1)
    assert_equal(
        loops(own, batch, place, 150.0, patient),
        truth(own, batch, place, 150.0, patient),
    )


@pytest.mark.parametrize("count", [1, 3, 31, 32, 33, 127, 128, 129, 300])
@pytest.mark.parametrize("hidden", [(), (1,), (4,), (7, 5), (16, 16, 16)])
def test_any_number_of_rows_and_units_will_do(count: int, hidden: tuple[int, ...]) -> None:
    """Blocks and tiles that are not full."""
    features = 1 + count % 6
    X, y = rows(max(count, 3), features, "heteroscedastic", seed=count)
    own, data = cohort(X, y, model(features, hidden, "heteroscedastic"))
    (batch,) = data.parts(1000)
    batch = Batch(batch.x[:count], batch.y[:count], batch.weight)
    place = start(own, 1)
    assert_equal(loops(own, batch, place, 7.0), truth(own, batch, place, 7.0))


def test_layers_may_do_without_biases_and_without_functions() -> None:
    net = nn.Sequential(nn.Linear(3, 6, bias=False), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1, bias=False))
    X, y = rows(40, 3, 0.5)
    own, data = cohort(X, y, likelihoods.Normal(lambda: net, 0.5))
    (batch,) = data.parts(1000)
    place = start(own, 1)
    assert_equal(loops(own, batch, place, 1.0), truth(own, batch, place, 1.0))


def test_rows_count_by_their_weights_and_folds_are_left_out() -> None:
    X, y = rows(60, 3, "learned")
    own, data = cohort(X, y, model(3, (8,), "learned"))
    (batch,) = data.parts(1000)
    chains = torch.rand(2, 1, 60, generator=torch.Generator().manual_seed(2)) * batch.weight
    for weight in (batch.weight.expand(60) * torch.arange(60), chains):
        weighted = Batch(batch.x, batch.y, weight)
        place = start(own, 1)
        assert_equal(loops(own, weighted, place, 60.0), truth(own, weighted, place, 60.0))


def test_labels_of_a_stream_are_looked_at_before_they_are_places_in_memory() -> None:
    X, y = rows(40, 3, "classes")
    own, data = cohort(X, y, model(3, (8,), "classes"))
    (batch,) = data.parts(1000)
    strange = Batch(batch.x, torch.full_like(batch.y, 3), batch.weight, checked=False)
    with pytest.raises(ValueError, match="3"):
        loops(own, strange, start(own, 1), 1.0)


@pytest.mark.parametrize("size", [1e3, 1e20, 1e38, float("inf"), float("nan")])
def test_what_is_no_number_stays_none_and_touches_no_other_chain(size: float) -> None:
    """A chain that is lost must be seen to be lost."""
    X, y = rows(50, 4, "heteroscedastic")
    own, data = cohort(X, y, model(4, (16, 16), "heteroscedastic"))
    (batch,) = data.parts(1000)
    place = start(own, 2)
    value, slope = loops(own, batch, place, 50.0)
    place[1] *= size
    lost, by_lost = loops(own, batch, place, 50.0)
    assert torch.equal(lost[[0, 2, 3]], value[[0, 2, 3]])
    assert torch.equal(by_lost[[0, 2, 3]], slope[[0, 2, 3]])
    if size > 1e30 or size != size:
        assert not torch.isfinite(lost[1]) or not torch.isfinite(by_lost[1]).all()


def test_bits_of_a_chain_depend_on_nothing_but_itself() -> None:
    """Neither on the number of threads nor on the chains beside it."""
    X, y = rows(500, 6, "classes")
    own, data = cohort(X, y, model(6, (16, 16), "classes"), members=7)
    (batch,) = data.parts(1000)
    place, before = start(own, 3), torch.get_num_threads()
    try:
        answers = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            answers.append(loops(own, batch, place, 500.0))
    finally:
        torch.set_num_threads(before)
    values, slopes = zip(*(loops(own, batch, some, 500.0) for some in place.split(5)), strict=True)
    answers.append((torch.cat(values), torch.cat(slopes)))
    for other in answers[1:]:
        assert all(torch.equal(a, b) for a, b in zip(answers[0], other, strict=True))


@pytest.mark.parametrize("x", [-200.0, -87.0, -1.0, -1e-8, 0.0, 0.3, 5.0, 80.0])
def test_the_exponential_is_good_to_single_precision(x: float) -> None:
    from cbdl.bayes.compiled.loops import exp

    true = np.exp(max(np.float64(np.float32(x)), -87.0))
    assert exp(np.float32(x)) == pytest.approx(true, rel=3e-7 + 6e-8 * abs(x))


def test_a_turn_is_the_exact_flow_under_a_constant_gradient() -> None:
    d, time = 40, 0.7
    source = np.random.default_rng(0)
    u, g = source.normal(size=(2, d))
    u, g = u / np.linalg.norm(u), 30 * g / np.linalg.norm(g)

    def flow(_: float, state: np.ndarray) -> np.ndarray:
        along = state[:d] @ g
        return np.append(-(g - along * state[:d]) / (d - 1), -along)

    end = solve_ivp(flow, (0, time), np.append(u, 0.0), rtol=1e-11, atol=1e-13).y[:, -1]
    after, gain = compiled.turn(*(torch.tensor(v, dtype=torch.float32) for v in (u[None], g[None], [time])))
    np.testing.assert_allclose(after[0], end[:d], atol=1e-6)
    np.testing.assert_allclose(gain[0], end[d], rtol=1e-5)


# --- when they are used -------------------------------------------------------------------------------------


def sampler(own: Likelihood, noise: Any = "learned", features: int = 3, **settings: Any) -> Sampler:
    X, y = rows(30, features, noise)
    data = prepare(X, y, space=own.space, dtype=torch.float32)
    made = Cohort.of([priors.Normal(0, 1)], own, data)
    return Sampler(MCLMC(**settings), made, data)


def test_long_runs_of_small_networks_use_them() -> None:
    assert sampler(model(3, (8,), "learned")).kernel is not None
    assert sampler(model(3, (8,), "learned"), optimise=20, warmup=20, draws=2).kernel is None


@pytest.mark.parametrize(
    "own",
    [
        model(3, (100,), "learned"),  # wide
        likelihoods.Normal(lambda: nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1))),
        likelihoods.Normal(lambda: nn.Sequential(nn.Linear(3, 1), nn.Tanh())),
        likelihoods.StudentT(mlp(3, 1, (8,))),
    ],
    ids=["wide", "another function", "a function at the end", "another noise"],
)
def test_other_models_are_evaluated_by_tensor_operations(own: Likelihood) -> None:
    assert sampler(own).kernel is None


def test_robust_members_and_several_outcomes_too() -> None:
    assert sampler(likelihoods.Categorical(mlp(3, 3, (4,)), worst=0.5), "classes").kernel is None
    X = torch.randn(20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    data = prepare(X, X[:, :2], space="real", dtype=torch.float32)
    two = Cohort.of([priors.Normal(0, 1)], likelihoods.Normal(mlp(3, 2, (4,))), data)
    assert compiled.Kernel.of(two, Space()) is None


def test_without_numba_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "cbdl.bayes.compiled.loops", raising=False)
    monkeypatch.delattr(compiled, "loops", raising=False)
    usable.cache_clear()
    try:
        assert sampler(model(3, (8,), "learned")).kernel is None
    finally:
        usable.cache_clear()


def test_both_ways_lead_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty moves of a given size; later chains part, because bits differ."""
    ends = []
    for least in (0, 10**9):
        monkeypatch.setattr(compiled, "LONG", least)
        own = sampler(model(3, (8,), "learned"))
        assert (own.kernel is not None) == (least == 0)
        turns = turn if own.kernel is None else compiled.turn
        direction = nn.functional.normalize(torch.ones_like(own.place), dim=1)
        motion, size = Motion(own.place, direction, *own.potential(own.place, None)), torch.full((4,), 0.02)
        for _ in range(20):
            scales = torch.ones_like(motion.place)
            motion, error = move(
                motion, size, lambda place, own=own: own.potential(place, None), turns, scales=scales
            )
        ends.append((motion.place, motion.direction, error))
    for a, b in zip(*ends, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)
