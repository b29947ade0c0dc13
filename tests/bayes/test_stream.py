"""Rows that are fetched anew in every epoch: augmentation stays random, runs stay reproducible and resumable."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from resuming import StopAfter
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, WeightedRandomSampler

import cbdl
from cbdl.bayes import likelihoods, priors, stream
from cbdl.bayes.checkpoint import Checkpoint, CheckpointError
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import Stream, as_input, prepare
from cbdl.bayes.methods import HMC, SGHMC, Ensemble, Laplace, LastLayer, MeanField
from cbdl.bayes.train import Interrupted, Run
from cbdl.engines import Processes, tasks

X = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * 4 + 7
Y = X.sum(1) - 20
PRIORS: list[priors.PriorLike] = [priors.Normal(0.0, 1.0), priors.Normal(0.0, 3.0)]


class Plain(Dataset[Any]):
    """Counts how often each item was fetched."""

    def __init__(self) -> None:
        self.fetched = [0] * len(X)

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        self.fetched[i] += 1
        return X[i], Y[i]


class Augmented(Plain):
    """Noise from all three global streams."""

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        shift = random.gauss(0, 1) + np.random.normal() + torch.randn(3)  # noqa: NPY002
        return X[i] + shift, Y[i]


def batches(data: Any, seed: int = 0, epoch: int = 0, start: int = 0) -> list[Any]:
    return list(data.epoch(seed, epoch, 16, start))


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def cohort(data: Any) -> Cohort:
    return Cohort.of(PRIORS, likelihoods.Normal(net), data)


@pytest.mark.parametrize("weights", [None, np.arange(50.0)])
def test_a_stream_without_randomness_serves_what_memory_does(weights: Any) -> None:
    inside = prepare(X, Y, space="real", weights=weights)
    if weights is not None:  # the first look does not weigh
        inside = inside.in_units(*(prepare(X, Y, space="real").inputs, prepare(X, Y, space="real").targets))
        inside = prepare(X, Y, space="real", weights=weights, standardize=False).in_units(
            inside.inputs, inside.targets
        )
    outside = prepare(Plain(), space="real", stream=True, weights=weights)
    assert isinstance(outside, Stream)
    assert (outside.rows, outside.size, outside.steps(16)) == (inside.rows, inside.size, inside.steps(16))
    for ours, theirs in (
        (batches(outside, 1, 2), batches(inside, 1, 2)),
        (batches(outside, 1, 2, 2), batches(inside, 1, 2, 2)),
        (list(outside.parts(20)), list(inside.parts(20))),
    ):
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close((a.x, a.y, a.weight), (b.x, b.y, b.weight), rtol=1e-6, atol=1e-6)


def test_augmentation_differs_between_epochs_and_is_a_function_of_seed_epoch_and_item() -> None:
    data = prepare(Augmented(), space="real", stream=True)

    def rows(seed: int, epoch: int) -> Tensor:
        x, y = (torch.cat([getattr(b, name) for b in batches(data, seed, epoch)]) for name in "xy")
        return x[y.argsort()]

    torch.manual_seed(1)
    first = rows(0, 0)
    before = torch.random.get_rng_state(), random.getstate()
    torch.manual_seed(2)
    random.seed(5)
    np.random.seed(9)  # noqa: NPY002
    assert torch.equal(first, rows(0, 0))
    assert not torch.isclose(first, rows(0, 1)).any(1).all()
    assert not torch.isclose(first, rows(1, 0)).any(1).all()
    # the user's own streams are left alone
    torch.random.set_rng_state(before[0])
    random.setstate(before[1])
    rows(0, 3)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert random.getstate() == before[1]


def test_items_are_fetched_once_an_epoch_and_only_when_they_are_due() -> None:
    source = Plain()
    data = prepare(source, space="real", stream=True)
    source.fetched = [0] * len(X)
    batches(data)
    assert source.fetched == [1] * len(X)
    one = next(data.epoch(0, 1, 16, 2))
    assert sum(source.fetched) == len(X) + len(one.x)


@pytest.mark.parametrize(
    "method", [MeanField(epochs=3, batch_size=16), SGHMC(epochs=6, batch_size=16, draws=2)]
)
def test_a_run_that_is_stopped_resumes_with_the_same_augmented_rows(tmp_path: Path, method: Any) -> None:
    data = prepare(Augmented(), space="real", stream=True)
    truth = method.fit(cohort(data), data, Run())
    with pytest.raises(Interrupted):
        method.fit(cohort(data), data, Run(checkpoint=Checkpoint(tmp_path / "p"), stop=StopAfter(6)))
    fresh = prepare(Augmented(), space="real", stream=True)
    resumed = method.fit(cohort(fresh), fresh, Run(checkpoint=Checkpoint(tmp_path / "p")))
    for name, value in truth.state().items():
        assert torch.equal(value, resumed.state()[name]), name
    with pytest.raises(CheckpointError, match="data differ"):
        method.fit(cohort(data), prepare(X, Y, space="real"), Run(checkpoint=Checkpoint(tmp_path / "p")))


def test_a_loader_is_streamed_in_its_own_batches_by_its_own_workers() -> None:
    def pairs(items: list[Any]) -> tuple[Tensor, Tensor]:
        return torch.stack([x for x, _ in items])[:, :2], torch.stack([y for _, y in items])

    loader = DataLoader(Augmented(), batch_size=10, shuffle=True, num_workers=1, collate_fn=pairs)
    data = prepare(loader, space="real")
    assert isinstance(data, Stream)
    assert data.steps(128) == 5
    assert {b.x.shape for b in batches(data)} == {(10, 2)}
    alone = prepare(DataLoader(Augmented(), batch_size=10, collate_fn=pairs), space="real")
    for ours, theirs in zip(batches(data, 3, 1), batches(alone, 3, 1), strict=True):
        assert torch.equal(ours.x, theirs.x)
    read = prepare(loader, space="real", stream=False)
    assert read.held.x.shape == (50, 2)


def test_the_first_look_is_bounded_and_standardises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LOOK", 10)
    source = Plain()
    data = prepare(source, space="real", stream=True)
    assert sum(source.fetched) == 11  # one tells how large a row is
    seen = torch.tensor(source.fetched) > 0
    seen[0] = bool(source.fetched[0] > 1)
    assert int(seen.sum()) == 10
    torch.testing.assert_close(data.inputs.loc, X[seen].mean(0))
    torch.testing.assert_close(data.held.x.mean(0), torch.zeros(3), atol=1e-5, rtol=0)


def test_full_batch_methods_work_through_parts_or_say_what_they_need() -> None:
    # the inverse of a curvature makes rounding larger: in float64 it stays below the tolerance
    outside = prepare(Plain(), space="real", stream=True, dtype=torch.float64)
    inside = prepare(X, Y, space="real", dtype=torch.float64)
    for method in (Laplace(epochs=2, part="all"), LastLayer(epochs=2), Ensemble(epochs=2)):
        a, b = (method.fit(cohort(data), data, Run()).state() for data in (outside, inside))
        for name in b:
            if name != "basis":  # eigenvectors have a sign of their own
                torch.testing.assert_close(a[name], b[name], rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match=r"HMC visits all rows.*stream=False"):
        HMC().fit(cohort(outside), outside, Run())


def test_the_model_learns_from_loaders_and_predicts_for_datasets() -> None:
    settings = {"priors": PRIORS, "likelihoods": [likelihoods.Normal(net)], "verbose": False}
    model = cbdl.CBDL(**settings, method=MeanField(epochs=2))  # type: ignore[arg-type]
    model.fit(DataLoader(Augmented(), batch_size=16), validation=Plain())
    model.fit(Plain(), stream=True)
    wanted = model.predict(X, samples=4).loc  # type: ignore[attr-defined]
    for given in (
        Plain(),
        DataLoader(Plain(), batch_size=7, shuffle=True),
        TensorDataset(X),
        TensorDataset(X, Y),
    ):
        got = model.predict(given, samples=4).loc  # type: ignore[attr-defined]
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    model.update(DataLoader(Plain(), batch_size=16))
    assert len(model.diagnostics().rows) == 2


def test_inputs_of_a_dataset_come_in_its_order() -> None:
    assert torch.equal(as_input(DataLoader(Plain(), batch_size=7, shuffle=True), torch.float32), X)

    class Rows(IterableDataset[Tensor]):
        def __iter__(self) -> Any:
            return iter(X)

    assert torch.equal(as_input(Rows(), torch.float32), X)


def test_streams_and_instances_travel_to_worker_processes() -> None:
    data = prepare(Augmented(), space="real", stream=True)
    todo = tasks(PRIORS, [likelihoods.Normal(net())])
    method = MeanField(epochs=2, batch_size=16)
    ((_, there),) = Processes(1).train(todo, data, method, Run())
    here = method.fit(todo[0].cohort(data), data, Run())
    torch.testing.assert_close(there.state()["mu"], here.mu, rtol=1e-4, atol=1e-5)


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([(X[0], Y[0])])


class Late(Plain):
    """A label that only shows up late."""

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        return X[i], 7 if i == 49 else i % 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: prepare(X, Y, space="real", stream=True), "X is no Dataset or DataLoader"),
        (lambda: prepare(Plain(), Y, space="real", stream=True), "do not give y as well"),
        (lambda: prepare(Endless(), space="real", stream=True), "Endless has no length"),
        (
            lambda: prepare(DataLoader(Plain(), sampler=WeightedRandomSampler([1.0] * 50, 50)), space="real"),
            "draws its rows by a WeightedRandomSampler",
        ),
        (
            lambda: prepare(DataLoader(Plain(), batch_size=None), space="real"),
            "batch_size and the default sampler",
        ),
        (lambda: prepare(TensorDataset(X), space="real", stream=True), "not pairs"),
    ],
)
def test_what_cannot_be_streamed_is_refused_with_words(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        given()


@pytest.mark.parametrize(
    "likelihood",
    [likelihoods.Categorical(lambda: nn.Linear(3, 2)), likelihoods.Bernoulli(lambda: nn.Linear(3, 1))],
)
def test_a_label_beyond_the_outputs_is_named_when_it_shows_up(
    monkeypatch: pytest.MonkeyPatch, likelihood: likelihoods.Likelihood
) -> None:
    monkeypatch.setattr(stream, "LOOK", 5)
    data = prepare(Late(), space="classes", stream=True)
    with pytest.raises(ValueError, match="is 7, but the network has outputs for 2 classes"):
        MeanField(epochs=1).fit(Cohort.of(PRIORS, likelihood, data), data, Run())
