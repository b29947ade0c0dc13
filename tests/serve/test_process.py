"""`cbdl serve` as a process: where it listens, and that it finishes what it has begun."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from calls import called

ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "CBDL_TOKEN"} | {"OMP_NUM_THREADS": "1"}


def test_it_prints_its_port_and_finishes_requests_under_way(line, tmp_path):
    (tmp_path / "token").write_text("s3cret\n")
    command = [sys.executable, "-c", "from cbdl.cli import main; main()", "serve", str(line)]
    options = ["--port", "0", "--token-file", str(tmp_path / "token"), "--json"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    try:
        url = json.loads(process.stdout.readline())["url"]
        assert url.startswith("http://127.0.0.1:")
        assert httpx.get(f"{url}/v1/model").status_code == 401
        door = {"Authorization": "Bearer s3cret"}
        question = {"rows": [{"x": 0.01 * i, "day": None} for i in range(60)], "draws": 256}
        with ThreadPoolExecutor(1) as pool:
            under_way = pool.submit(httpx.post, f"{url}/v1/predict", json=question, headers=door, timeout=60)
            while "cbdl_batch_rows_sum 60.0" not in httpx.get(f"{url}/metrics", headers=door).text:
                assert not under_way.done(), "the request was over before the service could be stopped"
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            assert len(under_way.result().json()["answers"]) == 60
        assert process.wait(30) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/healthz")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_what_cannot_be_served_is_said_before_anything_is_served(classes, tmp_path, monkeypatch):
    monkeypatch.delenv("CBDL_TOKEN", raising=False)

    def refused(*options: object) -> str:
        code, out, err = called("serve", *options)
        assert (code, out) == (2, "")
        return err

    assert "can be reached from other machines, and there is no token" in refused(
        classes, "--host", "0.0.0.0"
    )
    assert "does not exist" in refused(tmp_path / "nothing")
    assert "which is not a file" in refused(classes, "--token-file", tmp_path / "nothing")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "--port 0 picks a free port" in refused(classes, "--port", taken.getsockname()[1])
    assert "no address of this machine" in refused(classes, "--host", "no.such.host.invalid", "--force")
    monkeypatch.setenv("CBDL_TOKEN", "two words")
    assert "CBDL_TOKEN must be a word" in refused(classes)
