"""Forward passes by compiled loops: outputs against the network itself in double precision, one network after the
other, and when they are used at all.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import entropy
from torch import Tensor, nn

import cbdl
from cbdl.bayes import likelihoods, passes, predictive, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import prepare
from cbdl.bayes.flat import Layout
from cbdl.bayes.wide import plan
from cbdl.ground import compiling
from cbdl.ground.compiling import usable
from cbdl.nets import mlp

pytest.importorskip("numba")


def cohort(net: Any, features: int, dtype: torch.dtype = torch.float32) -> Cohort:
    X = torch.randn(30, features, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    data = prepare(X, X[:, 0], space="real", dtype=dtype)
    return Cohort.of([priors.Normal(0, 1)] * 2, likelihoods.Normal(net, 0.5), data)


def question(own: Cohort, rows: int, features: int, draws: int = 3) -> tuple[Tensor, Tensor]:
    """Parameters (members, draws, P) and inputs (rows, features)."""
    source = torch.Generator().manual_seed(rows)
    spread = torch.randn(own.size, draws, own.layout.size, generator=source)
    return own.initial.unsqueeze(1) + 0.3 * spread, torch.randn(rows, features, generator=source)


def used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops, however small the question."""
    monkeypatch.setattr(passes, "LEAST", 0)
    monkeypatch.setattr(passes, "LARGE", 0)


def answer(own: Cohort, theta: Tensor, x: Tensor, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    used(monkeypatch)
    quick = own.answering(x, len(x) * theta.shape[1])
    assert quick.forward.way == "passes"
    return quick.forward(theta, x, {})


def truth(own: Cohort, theta: Tensor, x: Tensor) -> Tensor:
    network = own.forward.network.double()
    with torch.no_grad():
        outs = [
            torch.func.functional_call(network, own.layout.view(at), (x.double(),))
            for at in theta.double().flatten(0, 1)
        ]
    network.float()
    return torch.stack(outs).view(*theta.shape[:2], len(x), -1)


def assert_equal(ours: Tensor, true: Tensor) -> None:
    # a few layers of sums of at most 64 terms of the size of the outputs, and exponentials to 3e-7
    np.testing.assert_allclose(ours.double(), true, rtol=2e-5, atol=5e-6 * float(true.abs().max()))


@pytest.mark.parametrize("count", [1, 31, 33, 127, 128, 129, 300])
@pytest.mark.parametrize("hidden", [(), (1,), (7, 5), (16, 16, 16), (64, 3)])
@pytest.mark.parametrize("activation", ["relu", "silu", "tanh"])
def test_outputs_are_those_of_the_network(
    count: int, hidden: tuple[int, ...], activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any number of rows and units: blocks and tiles that are not full."""
    features = 1 + count % 6
    own = cohort(mlp(features, 1, hidden, activation=activation), features)
    theta, x = question(own, count, features)
    assert_equal(answer(own, theta, x, monkeypatch), truth(own, theta, x))


def test_layers_may_do_without_biases_and_without_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Sequential(nn.Linear(3, 6, bias=False), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1, bias=False))
    own = cohort(lambda: net, 3)
    theta, x = question(own, 40, 3)
    assert_equal(answer(own, theta, x, monkeypatch), truth(own, theta, x))


@pytest.mark.parametrize("activation", ["relu", "silu", "tanh"])
def test_what_is_no_number_stays_none(activation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = cohort(mlp(3, 1, (8, 8), activation=activation), 3)
    theta, x = question(own, 20, 3)
    theta[0, 1, 5] = float("nan")
    lost = answer(own, theta, x, monkeypatch).isfinite().flatten(2).all(2)
    assert lost.flatten().tolist() == [True, False, True, True, True, True]


def test_answers_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    own = cohort(mlp(6, 1, (16, 16)), 6)
    theta, x = question(own, 300, 6, draws=20)
    before = torch.get_num_threads()
    try:
        answers = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            answers.append(answer(own, theta, x, monkeypatch))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(answers[0], other) for other in answers[1:])


# --- class probabilities, averaged --------------------------------------------------------------------------


def class_model(method: Any, likelihoods_: int = 1) -> cbdl.CBDL:
    source = np.random.default_rng(1)
    X, y = source.normal(size=(60, 4)), source.integers(0, 5, 60)
    own = [likelihoods.Categorical(mlp(4, 5, (n,), activation="silu")) for n in (7, 9)[:likelihoods_]]
    model = cbdl.CBDL(
        [priors.Normal(0, 1), priors.Normal(0, 3)], own, method, dtype=torch.float32, seed=3, verbose=False
    )
    return model.fit(X, y)


def check_averages(model: cbdl.CBDL, draws: int, monkeypatch: pytest.MonkeyPatch, limit: int | None) -> None:
    """Probabilities and entropies by scipy from the networks themselves, in double precision."""
    learned = model.learned
    x = 3 * torch.randn(161, 4, generator=torch.Generator().manual_seed(5))
    share = np.random.default_rng(2).dirichlet(np.ones(draws))
    used(monkeypatch)
    probs, noise, spread = predictive.averages(learned, x, torch.from_numpy(share)[None], limit)
    assert probs.shape == (161, len(learned.members), 1, 5)
    for s, part in learned.parts.items():
        theta, _ = predictive.parameters(learned, s, draws)
        p = softmax(truth(part.cohort, theta, x).numpy(), axis=-1)
        places = learned.places(s)
        # those of the outputs, and exponentials and logarithms to 3e-7
        np.testing.assert_allclose(probs[:, places, 0], np.einsum("d,mdrj->rmj", share, p), atol=2e-5)
        np.testing.assert_allclose(
            noise[:, places], np.einsum("d,mdr->rm", share, entropy(p, axis=-1)), atol=5e-5
        )
        away = np.square(p - np.einsum("d,mdrj->mrj", share, p)[:, None]).sum(-1)
        np.testing.assert_allclose(spread[:, places], np.einsum("d,mdr->rm", share, away), atol=4e-5)


@pytest.mark.parametrize("limit", [None, 20_000])
@pytest.mark.parametrize("parts", [1, 2])
def test_class_probabilities_are_those_of_the_networks(
    parts: int, limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With blocks of draws, and with members of several likelihoods, too."""
    model = class_model(cbdl.MeanField(epochs=1), parts)
    with monkeypatch.context() as patch:
        patch.setattr(predictive, "descriptions", None)  # loops do it all
        check_averages(model, 5, patch, limit)


def test_networks_that_are_made_linear_are_not_taken_for_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    model = class_model(cbdl.Laplace(epochs=1))
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(5))
    share = torch.full((1, 4), 0.25, dtype=torch.float64)
    plain = predictive.averages(model.learned, x, share)
    used(monkeypatch)
    for ours, theirs in zip(predictive.averages(model.learned, x, share), plain, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("size", [1e-30, 1.0, 30.0, 300.0, 1e30])
def test_probabilities_of_any_outputs(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Certain ones and underflow too: an entropy is never below 0 by more than rounding, nor infinite."""
    used(monkeypatch)
    net = nn.Linear(1, 6)
    layout = Layout.of(net)
    theta = size * torch.tensor([0.0, 1, 2, -1, 0.5, 3, *[0.0] * 6]).view(1, 1, 12)
    x = torch.linspace(-1, 1, 33).view(-1, 1)
    stack = plan(net, layout)
    assert stack is not None
    probs, noise, square = passes.averages(stack.steps, layout, theta, x, torch.ones(1))
    p = softmax(x.numpy() * theta[0, 0, :6].numpy().astype(np.float64), axis=1)
    np.testing.assert_allclose(probs[0].T, p, atol=1e-5 if size > 1 else 1e-6)
    np.testing.assert_allclose(noise[0], entropy(p, axis=1), atol=1e-4 if size > 1 else 1e-6)
    np.testing.assert_allclose(square[0], np.square(p).sum(1), atol=2e-5 if size > 1 else 2e-6)


# --- when they are used -------------------------------------------------------------------------------------


def test_large_questions_load_loops_when_there_is_work_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones never do, and are never answered by them."""
    own = cohort(mlp(3, 1, (8,)), 3)
    _, x = question(own, 10, 3)
    size = own.layout.size * own.size
    monkeypatch.setattr(compiling, "_work", Counter())
    monkeypatch.setattr(passes, "LARGE", 100 * size)
    monkeypatch.setattr(passes, "LEAST", 1000 * size)

    def ways(rows: int, times: int) -> list[str]:
        return [own.answering(x, rows).forward.way for _ in range(times)]

    assert ways(99, 30) == ["wide"] * 30
    assert ways(400, 3) == ["wide", "wide", "passes"]
    assert ways(99, 1) == ["wide"]


@pytest.mark.parametrize(
    "net",
    [
        mlp(3, 1, (100,)),
        lambda: nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1)),
        lambda: nn.Sequential(nn.Linear(3, 1), nn.Tanh()),
    ],
    ids=["wide", "another function", "a function at the end"],
)
def test_other_networks_are_evaluated_by_tensor_operations(net: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    used(monkeypatch)
    own = cohort(net, 3)
    _, x = question(own, 10, 3)
    assert own.answering(x, 1000).forward.way == "wide"


def test_double_precision_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    used(monkeypatch)
    own = cohort(mlp(3, 1, (8,)), 3, torch.float64)
    assert own.answering(torch.zeros(2, 3, dtype=torch.float64), 1000).forward.way == "wide"


def test_without_numba_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    used(monkeypatch)
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in ("answers", "loops"):
        monkeypatch.delitem(sys.modules, f"cbdl.bayes.compiled.{name}", raising=False)
    own = cohort(mlp(3, 1, (8,)), 3)
    usable.cache_clear()
    try:
        assert own.answering(torch.zeros(2, 3), 1000).forward.way == "wide"
    finally:
        usable.cache_clear()


@pytest.mark.parametrize("noise", [0.5, "learned", "heteroscedastic", "classes"])
def test_predictions_are_those_of_tensor_operations(noise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = np.random.default_rng(0)
    X = source.normal(size=(300, 4))
    y = 1e6 + X[:, 0] + 0.1 * source.normal(size=300)  # units are those of double precision
    net = mlp(4, {"classes": 2, "heteroscedastic": 2}.get(noise, 1), (8, 8), activation="silu")
    if noise == "classes":
        own: Any = likelihoods.Categorical(net)
    else:
        own = likelihoods.Normal(net, noise)
    model = cbdl.CBDL([priors.Normal(0, 1)] * 2, [own], cbdl.MeanField(epochs=2), verbose=False)
    model.fit(X, (X[:, 0] > 0).astype(int) if noise == "classes" else y)
    with monkeypatch.context() as patch:
        used(patch)
        quick = model.predict(X)
    plain = model.predict(X)
    if noise == "classes":
        np.testing.assert_allclose(quick.probs, plain.probs, rtol=1e-5)
    else:
        np.testing.assert_allclose(quick.loc, plain.loc, atol=1e-5)
        np.testing.assert_allclose(quick.scale, plain.scale, rtol=1e-5)
