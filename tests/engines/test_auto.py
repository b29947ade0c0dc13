"""Which engine trains where none was named, and workers that serve several runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.data import prepare
from cbdl.bayes.methods.mclmc import MCLMC
from cbdl.bayes.train import Interrupted, Run
from cbdl.engines import Auto, Local, Processes, Task, auto, crew_kept, local, processes

METHOD = MCLMC(chains=1, draws=4, thin=1, warmup=20, optimise=10)
X = torch.linspace(-1, 1, 30, dtype=torch.float64).unsqueeze(1)
DATA = prepare(X, X[:, 0].sin(), space="real", dtype=torch.float64)


def todo() -> list[Task]:
    net = lambda: nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))  # noqa: E731
    return local.tasks([priors.Normal(0, 1), priors.Normal(0, 3)], [likelihoods.Normal(net)])


@pytest.fixture
def two_threads() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_long_sampling_gets_a_process_per_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "cores", lambda: 8)
    chosen = Auto()._engine
    assert chosen(todo(), DATA, METHOD) == Local()
    long = MCLMC(chains=1, draws=100, thin=10, warmup=100_000_000)
    assert chosen(todo(), DATA, long) == Processes(2)
    monkeypatch.setattr(auto, "cores", lambda: 1)
    assert chosen(todo(), DATA, long) == Local()
    monkeypatch.setattr(auto, "cores", lambda: 8)
    torch.set_num_threads(1)
    assert chosen(todo(), DATA, long) == Local()


@pytest.mark.usefixtures("two_threads")
def test_work_that_cannot_be_sent_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = threading.Lock()

    def net() -> nn.Module:
        with lock:
            return nn.Linear(1, 1)

    monkeypatch.setattr(auto, "LONG", 0.0)
    monkeypatch.setattr(auto, "cores", lambda: 2)
    tasks = local.tasks([priors.Normal(0, 1)], [likelihoods.Normal(net)])
    assert isinstance(Auto()._engine(tasks, DATA, METHOD), Processes)
    ((cohort, _),) = Auto().train(tasks, DATA, METHOD, Run(verbose=False))
    assert cohort.size == 1


@dataclass
class Counted:
    """How many workers were started."""

    number: int = 0


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Counted:
    count, worker = Counted(), processes._Worker

    class Worker(worker):  # type: ignore[misc,valid-type]
        def __init__(self, *given: object) -> None:
            count.number += 1
            super().__init__(*given)

    monkeypatch.setattr(processes, "_Worker", Worker)
    return count


def test_a_crew_that_is_kept_serves_the_next_run_unless_it_was_told_to_stop(started: Counted) -> None:
    engine, run = Processes(1), Run(verbose=False)
    long = MCLMC(chains=1, draws=4, thin=1, warmup=1_000_000)
    with crew_kept():
        ((_, one),) = engine.train(todo(), DATA, METHOD, run)
        crew = processes._kept.get()
        assert crew is not None
        (first,) = crew.workers
        ((_, two),) = engine.train(todo(), DATA, METHOD, run)
        assert started.number == 1
        assert first.process.poll() is None
        with pytest.raises(Interrupted):
            engine.train(todo(), DATA, long, Run(verbose=False, stop=lambda: True))
        assert first.process.poll() is not None
        ((_, three),) = engine.train(todo(), DATA, METHOD, run)
        (second,) = crew.workers
        assert started.number == 2
    assert second.process.poll() is not None  # it ends with the block
    assert torch.equal(one.sample(4), two.sample(4))
    assert torch.equal(one.sample(4), three.sample(4))
