"""Kills, Ctrl-C, broken checkpoints, full disks, members that fail: nothing is lost and the message helps."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from resuming import StopAfter, assert_resumes
from safetensors.torch import load_file
from torch import Tensor, nn

from cbdl.bayes import data, likelihoods, priors
from cbdl.bayes.checkpoint import Checkpoint, CheckpointError
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods.mean_field import MeanField, MeanFieldPosterior
from cbdl.bayes.train import Interrupted, Run, TrainingWarning

SCRIPT = Path(__file__).with_name("long_run.py")


def test_a_run_killed_at_five_random_moments_ends_with_the_same_bits(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)],
        capture_output=True, text=True, timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    steps = [int(line) for line in done.stdout.split()]
    assert len(steps) == 5
    assert steps == sorted(steps)
    assert steps[-1] < 14 * 8
    truth, resumed = load_file(tmp_path / "whole.safetensors"), load_file(tmp_path / "resumed.safetensors")
    assert resumed.keys() == truth.keys()
    for name, value in truth.items():
        assert torch.equal(value, resumed[name]), name


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


def problem(factory: Any = net, rows: int = 64) -> tuple[Cohort, data.Data]:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 3, generator=source)
    made = data.prepare(x, x.sum(1), space="real")
    return Cohort.of([priors.Normal(), priors.Normal(0.0, 3.0)], likelihoods.Normal(factory), made), made


METHOD = MeanField(epochs=10, batch_size=16, lr=1e-2)


def same(a: MeanFieldPosterior, b: MeanFieldPosterior) -> bool:
    return all(torch.equal(a.state()[n], b.state()[n]) for n in a.state())


@pytest.mark.parametrize("steps", [1, 3, 4, 17, 39, 40])
def test_a_stop_at_any_step_resumes_to_the_same_bits(tmp_path: Path, steps: int) -> None:
    message = f"stopped after step {steps} of 40.*same call again"
    truth, resumed = assert_resumes(METHOD, *problem(), tmp_path, steps, message=message)
    assert resumed.record is not None
    assert truth.record is not None
    torch.testing.assert_close(resumed.record.loss, truth.record.loss, rtol=0, atol=0)


def test_ctrl_c_stops_at_a_step_boundary_and_says_how_to_go_on(tmp_path: Path) -> None:
    class PressesCtrlC(nn.Module):
        calls = 0

        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                PressesCtrlC.calls += 1
                if PressesCtrlC.calls == 25:
                    os.kill(os.getpid(), signal.SIGINT)
            out: Tensor = self.net(x)
            return out

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="The state is saved in"):
        METHOD.fit(*problem(PressesCtrlC), Run(checkpoint=Checkpoint(tmp_path / "point")))
    assert signal.getsignal(signal.SIGINT) is before
    resumed = METHOD.fit(*problem(PressesCtrlC), Run(checkpoint=Checkpoint(tmp_path / "point")))
    assert same(METHOD.fit(*problem(PressesCtrlC), Run()), resumed)
    with pytest.raises(Interrupted, match="Nothing was saved"):
        METHOD.fit(*problem(), Run(stop=StopAfter(3)))


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    path = tmp_path / "point"
    first = METHOD.fit(*problem(), Run(checkpoint=Checkpoint(path)))
    stamp = path.stat().st_mtime_ns

    def never() -> bool:
        raise AssertionError("a step was taken")

    again = METHOD.fit(*problem(), Run(checkpoint=Checkpoint(path), stop=never))
    assert same(first, again)
    assert path.stat().st_mtime_ns >= stamp


def saved(tmp_path: Path) -> Path:
    """The checkpoint of a run that was stopped on its way."""
    path = tmp_path / "point"
    with pytest.raises(Interrupted):
        METHOD.fit(*problem(), Run(checkpoint=Checkpoint(path, every_steps=5), stop=StopAfter(22)))
    return path


def resume(path: Path, method: MeanField = METHOD) -> MeanFieldPosterior:
    return method.fit(*problem(), Run(checkpoint=Checkpoint(path)))


@pytest.mark.parametrize("keep", [0, 4, 100, 0.5, -1])
def test_a_truncated_checkpoint_is_a_clear_error(tmp_path: Path, keep: float) -> None:
    path = saved(tmp_path)
    blob = path.read_bytes()
    path.write_bytes(blob[: int(keep * len(blob)) if isinstance(keep, float) else keep])
    with pytest.raises(CheckpointError, match=r"truncated.*point.previous"):
        resume(path)
    path.write_bytes(path.with_name("point.previous").read_bytes())
    assert same(resume(path), METHOD.fit(*problem(), Run()))


def test_any_altered_byte_is_noticed(tmp_path: Path) -> None:
    path = saved(tmp_path)
    blob = path.read_bytes()
    pick = random.Random(1)
    for at in [*range(8), *(pick.randrange(len(blob)) for _ in range(60))]:
        broken = bytearray(blob)
        broken[at] ^= 1 << pick.randrange(8)
        path.write_bytes(broken)
        with pytest.raises(CheckpointError):
            resume(path)
    path.write_bytes(b"not a checkpoint at all")
    with pytest.raises(CheckpointError, match="truncated or no checkpoint"):
        resume(path)


def test_a_checkpoint_of_another_run_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = saved(tmp_path)
    blob = path.read_bytes()
    with pytest.raises(CheckpointError, match="another run: method, plan differ"):
        resume(path, replace(METHOD, lr=2e-2))
    other = problem(lambda: nn.Linear(3, 1))
    with pytest.raises(CheckpointError, match="another run: network, priors differ"):
        METHOD.fit(*other, Run(checkpoint=Checkpoint(path)))
    with pytest.raises(CheckpointError, match="data differ"):
        METHOD.fit(*problem(rows=63), Run(checkpoint=Checkpoint(path)))
    assert path.read_bytes() == blob


def test_a_full_disk_keeps_the_last_good_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path)
    blob = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"No space left on device.*last good one is kept"):
        resume(path)
    assert path.read_bytes() == blob
    assert not [p for p in tmp_path.iterdir() if p.name.endswith(".tmp")]
    monkeypatch.undo()
    assert same(resume(path), METHOD.fit(*problem(), Run()))


def test_a_kill_between_the_two_renames_loses_nothing(tmp_path: Path) -> None:
    path = saved(tmp_path)
    path.unlink()
    assert same(resume(path), METHOD.fit(*problem(), Run()))


class Explodes(nn.Module):
    """Gives infinity in training once its bias, which the seed decides, has the wrong sign."""

    def __init__(self) -> None:
        super().__init__()
        self.net = net()
        self.switch = nn.Parameter(torch.randn(()))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x) * torch.where(self.switch > 0, 1.0, torch.inf)
        return out


def test_a_member_that_fails_is_set_aside_and_the_others_are_not_lost(tmp_path: Path) -> None:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(64, 3, generator=source)
    made = data.prepare(x, x.sum(1), space="real")
    everyone: list[priors.PriorLike] = [priors.Normal()] * 6
    cohort = Cohort.of(everyone, likelihoods.Normal(Explodes), made)
    bad = {i for i in range(6) if cohort.layout.view(cohort.initial)["switch"][i] < 0}
    assert 0 < len(bad) < 6
    method = MeanField(epochs=10, batch_size=16, lr=1e-2, initial_scale=1e-4, clip=1.0)
    with pytest.warns(TrainingWarning, match=r"stopped at step 0 \(epoch 0, batch 0\).*Likely cause"):
        posterior = method.fit(cohort, made, Run())
    assert posterior.record is not None
    assert set(posterior.record.failures) == bad
    assert torch.isfinite(posterior.mu).all()
    assert torch.isfinite(posterior.rho).all()
    good = [i for i in range(6) if i not in bad]
    alone = Cohort.of(everyone, likelihoods.Normal(Explodes), made, members=[cohort.members[i] for i in good])
    torch.testing.assert_close(method.fit(alone, made, Run()).mu, posterior.mu[good], rtol=1e-4, atol=1e-5)
    # the failure is part of the checkpoint
    path = tmp_path / "point"
    with pytest.warns(TrainingWarning), pytest.raises(Interrupted):
        method.fit(cohort, made, Run(checkpoint=Checkpoint(path), stop=StopAfter(11)))
    again = method.fit(cohort, made, Run(checkpoint=Checkpoint(path)))
    assert same(again, posterior)
    assert again.record is not None
    assert again.record.failures == posterior.record.failures


def test_early_stopping_keeps_each_members_best_epoch() -> None:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(30, 3, generator=source)
    y = torch.randn(30, generator=source)  # nothing to learn: training only overfits
    made = data.prepare(x, y, space="real", validation=(x + 1, -y))
    wide = lambda: nn.Sequential(nn.Linear(3, 50), nn.Tanh(), nn.Linear(50, 1))  # noqa: E731
    cohort = Cohort.of([priors.Normal(), priors.Normal(0.0, 3.0)], likelihoods.Normal(wide, 0.5), made)
    method = MeanField(epochs=200, batch_size=30, lr=1e-2, temperature=1e-3, patience=5)
    posterior = method.fit(cohort, made, Run())
    record = posterior.record
    assert record is not None
    assert (record.stopped < 200).all()
    best = record.score.nan_to_num(torch.inf)[: int(record.stopped.max())].min(0).values
    from cbdl.bayes.methods.mean_field import _Objective

    judge = _Objective(method, cohort, made)
    judge.variables.copy_(torch.cat([posterior.mu, posterior.rho, posterior.noise], 1))
    assert made.validation is not None
    torch.testing.assert_close(judge.validate(made.validation).double(), best, rtol=1e-5, atol=1e-5)
