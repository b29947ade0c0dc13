"""The service against a plain loop: digits, 16 clients, one row a request.

The loop does for every request what the service does (read JSON, one forward pass, answer in JSON), one request after
the other, without HTTP, so that all that the service spends on connections counts against it. Only 127.0.0.1 is asked;
clients are threads of another process, each with a connection of its own. Seconds are those of `REQUESTS` requests.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from benchmarks._table import Row
from cbdl.serve.answers import answer, finished
from cbdl.serve.limits import Limits
from cbdl.serve.rows import encoded, unknown
from cbdl.serve.schema import question
from cbdl.tables import learning
from cbdl.tables.answers import Options, Trained

CLIENTS, REQUESTS, ALONE = 16, 640, 40
PATIENCE = 120
"""Seconds after which a benchmark is given up."""


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        model = _digits(Path(folder))
        trained, bodies = Trained.load(model), _bodies(Path(folder))
        _loop(trained, bodies[:4])
        before = _loop(trained, bodies[:ALONE])
        with _service(model) as url:
            _load(url, folder, CLIENTS * 4)
            seconds, times = _load(url, folder, REQUESTS)
        after = _loop(trained, bodies[:ALONE])
        peer = min(before, after) / ALONE * REQUESTS
    p50, p99 = np.quantile(times, [0.5, 0.99])
    note = (
        f"{REQUESTS / seconds:,.0f} requests/s, p50 {1e3 * p50:.0f} ms, p99 {1e3 * p99:.0f} ms; the loop "
        f"{REQUESTS / peer:,.0f} requests/s"
    )
    what = f"cbdl serve, digits, {CLIENTS} clients, {REQUESTS} requests of one row"
    return [Row(what, seconds, "the same model, one request, one forward pass", peer, 4, note)]


def _digits(folder: Path) -> Path:
    from sklearn.datasets import load_digits

    frame = load_digits(as_frame=True).frame
    frame.to_csv(folder / "digits.csv", index=False)
    settings = learning.Settings("target", steps=100, plausible=0, calibration=None)
    learning.fit(folder / "digits.csv", folder / "model", settings, verbose=False)
    return folder / "model"


def _bodies(folder: Path) -> list[bytes]:
    import pandas as pd

    frame = pd.read_csv(folder / "digits.csv").drop(columns="target")
    bodies = [json.dumps({"rows": [row]}).encode() for row in frame.to_dict("records")]
    (folder / "bodies.json").write_text(json.dumps([b.decode() for b in bodies]))
    return bodies


def _loop(trained: Trained, bodies: list[bytes]) -> float:
    """Seconds for one request after the other."""
    start = time.perf_counter()
    for body in bodies:
        asked = question(body, Limits())
        options = Options(asked.alpha, samples=asked.draws, floor=True)
        own = encoded(trained, asked.rows, options)
        answers = finished(answer(trained, own, options), asked.phi, unknown(trained, own))
        json.dumps({"answers": answers})
    return time.perf_counter() - start


@contextmanager
def _service(model: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "cbdl", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def _load(url: str, folder: str, requests: int) -> tuple[float, list[float]]:
    """Seconds for all requests, and for each, by clients in a process of their own."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.bench_serve",
        url,
        str(Path(folder) / "bodies.json"),
        str(requests),
    ]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    whole = json.loads(out)
    return whole["seconds"], whole["times"]


# --- the clients' process -------------------------------------------------------------------------------------


def _clients(url: str, bodies: list[str], requests: int) -> dict[str, object]:
    place = urlsplit(url)

    def client(which: int) -> list[float]:
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=PATIENCE)
        times = []
        for i in range(which, requests, CLIENTS):
            start = time.perf_counter()
            connection.request(
                "POST", "/v1/predict", bodies[i % len(bodies)], {"Content-Type": "application/json"}
            )
            response = connection.getresponse()
            response.read()
            assert response.status == 200
            times.append(time.perf_counter() - start)
        return times

    with ThreadPoolExecutor(CLIENTS) as pool:
        start = time.perf_counter()
        each = list(pool.map(client, range(CLIENTS)))
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "times": [t for own in each for t in own]}


if __name__ == "__main__":
    print(json.dumps(_clients(sys.argv[1], json.loads(Path(sys.argv[2]).read_text()), int(sys.argv[3]))))
