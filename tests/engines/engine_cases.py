"""Work for engines to do, and methods that die, fail or wait on purpose."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import Data, prepare
from cbdl.bayes.methods.mean_field import MeanField
from cbdl.bayes.methods.protocol import Method, Posterior
from cbdl.bayes.train import Record, Run
from cbdl.engines import Task, local
from cbdl.engines.split import bring, groups, together

METHOD = MeanField(epochs=6, batch_size=32, lr=1e-2)
STEPS = 6 * 4
ROUNDING = 1e-8
"""What 24 steps of Adam in float64 make of rounding: each may multiply an error of 1e-16 by a few, not by thousands."""
BITS = 0.0


def images() -> Data:
    """120 small images, three classes."""
    source = torch.Generator().manual_seed(0)
    x = torch.randn(120, 1, 6, 6, generator=source, dtype=torch.float64)
    y = (x.mean((1, 2, 3)) > 0).long() + (x[:, 0, 0, 0] > 0.5).long()
    return prepare(x[:100], y[:100], space="classes", dtype=torch.float64, validation=(x[100:], y[100:]))


class Normed(nn.Module):
    """A convolution, running statistics, and randomness of its own."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, channels, 3), nn.BatchNorm2d(channels), nn.ReLU(), nn.Dropout(0.1), nn.Flatten()
        )
        self.head = nn.Linear(channels * 16, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x))
        return out


def todo(members: int = 4, *, second: bool = True) -> list[Task]:
    """Two likelihoods whose factories plain pickle refuses: a closure and a lambda."""
    channels = 3

    def closure() -> nn.Module:
        return Normed(channels)

    nets = [closure, lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 3))]
    kinds = [likelihoods.Categorical(net) for net in nets[: 1 + second]]
    return local.tasks(priors.grid(loc=[0.0], scale=[0.5 + 0.5 * k for k in range(members)]), kinds, seed=7)


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def reference(
    tasks: Sequence[Task], data: Data, workers: int, method: MeanField = METHOD
) -> list[tuple[Cohort, Posterior]]:
    """The same groups, one after the other in this process on one thread, and put together."""
    made = groups([len(t.members) for t in tasks], workers)
    with one_thread():
        pieces = local.fit([g.task(tasks) for g in made], data, method, Run())
    whole = []
    for i, task in enumerate(tasks):
        cohort = task.cohort(data)
        own = [bring(p) for (_, p), g in zip(pieces, made, strict=True) if g.cohort == i]
        whole.append((cohort, together(method, cohort, own)))
    return whole


def assert_same(
    ours: Sequence[tuple[Cohort, Posterior]],
    theirs: Sequence[tuple[Cohort, Posterior]],
    tolerance: float = ROUNDING,
) -> None:
    """Equal tensors and records, to rounding; a run that was resumed with the same groups and threads, bit by bit."""
    assert len(ours) == len(theirs)
    for (a, p), (b, q) in zip(ours, theirs, strict=True):
        assert a.members == b.members
        assert p.state().keys() == q.state().keys()
        for name, x in p.state().items():
            torch.testing.assert_close(x, q.state()[name], rtol=tolerance, atol=tolerance, msg=name)
        torch.testing.assert_close(p.sample(3), q.sample(3), rtol=tolerance, atol=tolerance)
        left, right = p.record, q.record
        assert isinstance(left, Record)
        for field in fields(Record):
            x, y = getattr(left, field.name), getattr(right, field.name)
            if isinstance(x, Tensor):
                torch.testing.assert_close(
                    x, y, rtol=tolerance, atol=tolerance, equal_nan=True, msg=field.name
                )
            else:
                assert x == y


@dataclass(frozen=True)
class Watched(Method):
    """Mean field that writes down how it goes, for the member `k` of likelihood 0: `steps-<pid>` grows by one line
    a step, a checkpoint every 4 steps. At step `at` it dies (`deaths` times in all) or waits to be killed.
    """

    place: str
    at: int = 10
    deaths: int = 0
    waits: bool = False
    k: int = 0
    inner: MeanField = METHOD

    def fit(self, cohort: Cohort, data: Data, run: Run) -> Posterior:
        if (self.k, 0) not in [(m.k, m.s) for m in cohort.members]:
            return self.inner.fit(cohort, data, run)
        assert run.checkpoint is not None
        asked, place = run.stop, Path(self.place)
        log = place / f"steps-{os.getpid()}"

        def after_step() -> bool:
            with open(log, "a") as file:
                file.write("step\n")
            if len(log.read_text().splitlines()) == self.at:
                earlier = len(list(place.glob("steps-*"))) - 1
                if earlier < self.deaths:
                    os.kill(os.getpid(), signal.SIGKILL)
                if self.waits and earlier == 0:
                    (place / "ready").write_text(str(os.getpid()))
                    until = time.monotonic() + 60
                    while time.monotonic() < until and not (asked is not None and asked()):
                        time.sleep(0.01)
            return asked is not None and asked()

        point = replace(run.checkpoint, every_steps=4)
        return self.inner.fit(cohort, data, replace(run, stop=after_step, checkpoint=point))

    def from_state(self, cohort: Cohort, state: Mapping[str, Tensor]) -> Posterior:
        return self.inner.from_state(cohort, state)

    def steps(self) -> list[int]:
        """Steps that each process took, in the order of time."""
        logs = sorted(Path(self.place).glob("steps-*"), key=lambda p: p.stat().st_mtime)
        return [len(log.read_text().splitlines()) for log in logs]


def when_ready(place: Path, number: int, *, whom: int | None = None) -> threading.Thread:
    """Send signal `number` to the process that wrote `ready` (or to `whom`) as soon as it did."""

    def wait() -> None:
        file, until = place / "ready", time.monotonic() + 60
        while not (file.exists() and file.read_text()) and time.monotonic() < until:
            time.sleep(0.02)
        os.kill(int(file.read_text()) if whom is None else whom, number)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


class Fragile(nn.Module):
    """A network that breaks in training, and tells whether its process has imported torch's compiler, which takes as
    long as torch itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(36, 3)

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.shape[0] > 10:
            compiler = "with" if "torch._dynamo" in sys.modules else "without"
            raise ZeroDivisionError(f"the flux capacitor is empty, {compiler} torch's compiler")
        out: Tensor = self.layer(x.flatten(1))
        return out
