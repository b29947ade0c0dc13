"""Worker processes: same tensors, whatever dies, stops or breaks."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from engine_cases import (
    BITS,
    METHOD,
    STEPS,
    Fragile,
    Watched,
    assert_same,
    images,
    one_thread,
    reference,
    todo,
    when_ready,
)
from torch import nn

from cbdl.bayes import likelihoods, priors, progress
from cbdl.bayes.checkpoint import CheckpointError
from cbdl.bayes.data import prepare
from cbdl.bayes.methods.mean_field import MeanField
from cbdl.bayes.train import Interrupted, Run, TrainingWarning
from cbdl.engines import Local, Processes, WorkerError, crew_kept, local, processes


@pytest.fixture(scope="module", autouse=True)
def crew() -> Iterator[None]:
    """One crew for the tests of this file, while none of them ends it: each worker takes seconds to start."""
    with crew_kept():
        yield


def test_workers_give_the_tensors_of_one_process(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0)
    tasks, data = todo(2), images()
    made = Processes(2).train(tasks, data, METHOD, Run(verbose=True))
    assert_same(made, Local().train(tasks, data, METHOD, Run()))
    out, err = capfd.readouterr()
    assert out == ""
    assert "of 2 groups done" in err


def test_member_that_fails_is_named_and_the_others_are_not_lost() -> None:
    x = torch.randn(64, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    data = prepare(x, x[:, 0], space="real", dtype=torch.float64)
    net = lambda: nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))  # noqa: E731
    # the second prior is so far away that the start at its centre overflows
    tasks = local.tasks([priors.Normal(0, 1), priors.Normal(1e200, 1)], [likelihoods.Normal(net, scale=0.1)])
    method = MeanField(epochs=2, start="prior")
    with pytest.warns(TrainingWarning, match="prior 1, likelihood 0"):
        ((_, posterior),) = Processes(1).train(tasks, data, method, Run())
    assert list(posterior.record.failures) == [1]  # type: ignore[attr-defined]
    assert torch.isfinite(posterior.state()["mu"]).all()


def test_worker_killed_in_the_middle_resumes_bit_for_bit(tmp_path: Path) -> None:
    tasks, data = todo(1, second=False), images()
    method = Watched(str(tmp_path), waits=True)
    killer = when_ready(tmp_path, signal.SIGKILL)
    made = Processes(1).train(tasks, data, method, Run())
    killer.join()
    assert method.steps() == [10, STEPS - 8]  # the checkpoint of step 8 was the last
    assert_same(made, reference(tasks, data, 1), BITS)


def test_ctrl_c_stops_all_at_a_step_and_another_engine_goes_on(tmp_path: Path) -> None:
    tasks, data = todo(2, second=False), images()
    method, run = Watched(str(tmp_path), waits=True), tmp_path / "run"
    before = signal.getsignal(signal.SIGINT)
    sender = when_ready(tmp_path, signal.SIGINT, whom=os.getpid())
    with pytest.raises(Interrupted, match=r"saved in .*run; make the same call again"):
        Processes(2).train(tasks, data, method, Run(), checkpoint_dir=run)
    sender.join()
    assert signal.getsignal(signal.SIGINT) is before
    assert method.steps() == [10]
    with one_thread():
        made = Local().train(tasks, data, method, Run(), checkpoint_dir=run)
    assert method.steps() == [10, STEPS - 10]
    assert_same(made, reference(tasks, data, 2), BITS)


def test_worker_that_always_dies_is_given_up_and_nothing_is_lost(tmp_path: Path) -> None:
    tasks, data = todo(1, second=False), images()
    method, run = Watched(str(tmp_path), at=5, deaths=1), tmp_path / "run"
    with pytest.raises(
        WorkerError, match=r"likelihood 0, prior 0: .*SIGKILL.*0 retries.*the same call again"
    ):
        Processes(1, retries=0).train(tasks, data, method, Run(), checkpoint_dir=run)
    with one_thread():
        made = Local().train(tasks, data, method, Run(), checkpoint_dir=run)
    assert method.steps() == [5, STEPS - 4]
    assert_same(made, reference(tasks, data, 1), BITS)


def test_exception_comes_home_with_the_member_and_the_cause() -> None:
    tasks = local.tasks([priors.Normal(0, 1)] * 2, [likelihoods.Categorical(Fragile)])
    with pytest.raises(
        WorkerError,
        match=r"likelihood 0, prior.*: ZeroDivisionError: the flux capacitor is empty, without torch",
    ) as caught:
        Processes(1).train(tasks, images(), METHOD, Run())
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "in forward" in caught.value.__notes__[0]


SCRIPT = """
    import sys
    import torch
    from torch import nn
    from cbdl.bayes import likelihoods, priors
    from cbdl.bayes.data import prepare
    from cbdl.bayes.methods.mean_field import MeanField
    from cbdl.bayes.train import Run
    from cbdl.engines import Local, Processes, crew_kept, tasks

    torch.set_default_dtype(torch.float64)
    width = 5
    x = torch.linspace(-1, 1, 40).reshape(-1, 1)
    data = prepare(x, x[:, 0].sin(), space="real", dtype=torch.float64)
    todo = tasks([priors.Normal(0, 1), priors.Normal(0, 2)],
                 [likelihoods.Normal(lambda: nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1)))])
    short, long = MeanField(epochs=2), MeanField(epochs=1_000_000)
    with crew_kept():
        ((cohort, posterior),) = Processes(1).train(todo, data, short, Run())
        ((_, here),) = Local().train(todo, data, short, Run())
        print(float((here.mu - posterior.mu).abs().max()) < 1e-8, flush=True)
        Processes(1).train(todo, data, long, Run(), checkpoint_dir=sys.argv[1], every_seconds=0.1)
"""


def _workers_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_plain_script_needs_no_guard_and_when_it_is_killed_its_workers_save_and_end(tmp_path: Path) -> None:
    script, run = tmp_path / "plain_script.py", tmp_path / "run"
    script.write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, str(script), str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        until = time.monotonic() + 60
        while len(list(run.glob("*.safetensors"))) < 1 and time.monotonic() < until:
            time.sleep(0.05)
        workers = _workers_of(process.pid)
        process.kill()
    assert len(workers) == 1
    until = time.monotonic() + 20
    while any(Path(f"/proc/{w}").exists() for w in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not [w for w in workers if Path(f"/proc/{w}").exists()]
    assert not list(run.glob(".*.tmp"))


def test_factory_that_cannot_travel_is_refused_before_any_training() -> None:
    lock = threading.Lock()

    def net() -> nn.Module:
        with lock:
            return nn.Sequential(nn.Flatten(), nn.Linear(36, 3))

    tasks = local.tasks([priors.Normal(0, 1)], [likelihoods.Categorical(net)])
    with pytest.raises(ValueError, match=r"the network factory of likelihood 0 cannot be sent.*lock"):
        Processes(1).train(tasks, images(), METHOD, Run())


def test_bad_input_and_damaged_checkpoints_are_errors_of_their_own(tmp_path: Path) -> None:
    narrow = local.tasks(
        [priors.Normal(0, 1)],
        [likelihoods.Categorical(lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 2)))],
    )
    with pytest.raises(ValueError, match="outputs for 2 classes"):
        Processes(1).train(narrow, images(), METHOD, Run())
    tasks = todo(1, second=False)
    (tmp_path / f"{tasks[0].name}.safetensors").write_bytes(b"half of a checkpoi")
    with pytest.raises(CheckpointError, match="truncated or no checkpoint"):
        Processes(1).train(tasks, images(), METHOD, Run(), checkpoint_dir=tmp_path)


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"workers": 1.5}, {"threads": 0}, {"retries": -1}])
def test_bad_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Processes(**wrong)  # type: ignore[arg-type]


def test_worker_that_cannot_start_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "START", "raise SystemExit(3)")
    with pytest.raises(WorkerError, match=r"could not start \(ended with exit code 3\)"):
        Processes(1).train(todo(1, second=False), images(), METHOD, Run())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_five_kills_at_random_moments_change_nothing() -> None:
    tasks, data = todo(2, second=False), images()
    method = replace(METHOD, epochs=400)
    wanted = reference(tasks, data, 2, method)
    chance, killed = random.Random(0), []

    def kill_five() -> None:
        while len(killed) < 5:
            time.sleep(chance.uniform(2, 6))
            workers = _workers_of(os.getpid())
            if not workers:
                return
            killed.append(chance.choice(workers))
            os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill_five, daemon=True)
    killer.start()
    made = Processes(2, retries=5).train(tasks, data, method, Run(), every_seconds=0.05)
    killer.join()
    assert len(killed) >= 3
    assert_same(made, wanted)
