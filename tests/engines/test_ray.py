"""A real Ray on this machine: same tensors, whatever dies, stops or breaks."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
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

from cbdl.bayes import likelihoods, priors, progress
from cbdl.bayes.train import Interrupted, Run
from cbdl.engines import Local, Ray, WorkerError, local
from clusters import local_ray

pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with local_ray() as ray:
        yield ray


def test_tasks_give_the_tensors_of_one_process(
    cluster: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0)
    tasks, data = todo(2), images()
    made = Ray(workers=2).train(tasks, data, METHOD, Run(verbose=True))
    assert_same(made, Local().train(tasks, data, METHOD, Run()))
    assert cluster.is_initialized()
    assert capfd.readouterr().out == ""


def test_room_of_the_cluster_decides_the_split(cluster: Any, tmp_path: Path) -> None:
    tasks, data = todo(3, second=False), images()
    made = Ray().train(tasks, data, METHOD, Run(), checkpoint_dir=tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) == 2
    assert_same(made, reference(tasks, data, 2))


def test_worker_killed_in_the_middle_resumes_bit_for_bit(cluster: Any, tmp_path: Path) -> None:
    tasks, data = todo(2, second=False), images()
    method = Watched(str(tmp_path), waits=True)
    killer = when_ready(tmp_path, signal.SIGKILL)
    made = Ray(workers=2).train(tasks, data, method, Run())
    killer.join()
    assert method.steps() == [10, STEPS - 8]
    assert_same(made, reference(tasks, data, 2), BITS)


def test_worker_that_always_dies_is_given_up_and_nothing_is_lost(cluster: Any, tmp_path: Path) -> None:
    tasks, data = todo(1, second=False), images()
    method, run = Watched(str(tmp_path), at=5, deaths=1), tmp_path / "run"
    with pytest.raises(
        WorkerError, match=r"likelihood 0, prior 0: .*WorkerCrashedError.*0 retries.*the same call again"
    ):
        Ray(retries=0).train(tasks, data, method, Run(), checkpoint_dir=run)
    with one_thread():
        made = Local().train(tasks, data, method, Run(), checkpoint_dir=run)
    assert method.steps() == [5, STEPS - 4]
    assert_same(made, reference(tasks, data, 1), BITS)


def test_exception_comes_home_with_the_member_and_the_cause(cluster: Any) -> None:
    tasks = local.tasks([priors.Normal(0, 1)], [likelihoods.Categorical(Fragile)])
    with pytest.raises(WorkerError, match=r"likelihood 0, prior 0: ZeroDivisionError: the flux") as caught:
        Ray().train(tasks, images(), METHOD, Run())
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "in forward" in caught.value.__notes__[0]


def test_ctrl_c_stops_all_at_a_step_and_another_engine_goes_on(cluster: Any, tmp_path: Path) -> None:
    tasks, data = todo(2, second=False), images()
    method, run = Watched(str(tmp_path), waits=True), tmp_path / "run"
    sender = when_ready(tmp_path, signal.SIGINT, whom=os.getpid())
    with pytest.raises(Interrupted, match=r"saved in .*run; make the same call again"):
        Ray(workers=2).train(tasks, data, method, Run(), checkpoint_dir=run)
    sender.join()
    assert method.steps() == [10]
    with one_thread():
        made = Local().train(tasks, data, method, Run(), checkpoint_dir=run)
    assert_same(made, reference(tasks, data, 2), BITS)


def test_task_that_fits_on_no_node_is_an_error_at_once(cluster: Any) -> None:
    with pytest.raises(ValueError, match="num_cpus=64"):
        Ray(num_cpus=64).train(todo(1), images(), METHOD, Run())


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"num_cpus": 0}, {"num_gpus": -1}, {"retries": -1}])
def test_bad_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Ray(**wrong)  # type: ignore[arg-type]


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r'pip install "cbdl\[ray\]"'):
        Ray()


ALONE = """
import sys
sys.path.insert(0, sys.argv[1])
import ray
from engine_cases import METHOD, assert_same, images, reference, todo
from cbdl.bayes.train import Run
from cbdl.engines import Ray
tasks, data = todo(2), images()
address = sys.argv[2] if len(sys.argv) > 2 else None
made = Ray(address).train(tasks, data, METHOD, Run())
assert not ray.is_initialized()
assert_same(made, reference(tasks, data, 2))
"""


@pytest.mark.slow
def test_ray_of_its_own_is_started_and_ended() -> None:
    subprocess.run([sys.executable, "-c", ALONE, str(Path(__file__).parent)], check=True, timeout=300)


@contextmanager
def _head(place: str) -> Iterator[str]:
    """A cluster of one node in a session of its own, which alone is ended: `ray stop` would end all on the machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    command += ["--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=2", f"--temp-dir={place}"]
    command += ["--include-dashboard=false", "--disable-usage-stats"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, start_new_session=True, **quiet) as process:
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.2)
            yield f"127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


@pytest.mark.slow
def test_running_cluster_is_joined_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    # a token of this test's own: the cluster stays closed to others, and no token of the user is touched
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    # a short path of its own: sockets need it short, and no trace is left where other runs look for a cluster
    with TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as place, _head(place) as address:
        monkeypatch.setenv("RAY_ADDRESS", address)
        for where in ("auto", address):
            subprocess.run(
                [sys.executable, "-c", ALONE, str(Path(__file__).parent), where], check=True, timeout=300
            )
