"""The same application as a Ray Serve deployment: two replicas, one killed under load."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from clusters import local_ray

WORKERS, PATIENCE = 4, 120


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def deployed(serve, model: str):
    """The deployment of the guide; answers name the process that gave them, so that the test can end it."""

    def service():
        import cbdl.serve
        from cbdl.tables.answers import Trained

        app = cbdl.serve.application(Trained.load(model))

        @app.middleware("http")
        async def named(request, call_next):
            response = await call_next(request)
            response.headers["X-Process"] = str(os.getpid())
            return response

        return app

    return serve.deployment(
        serve.ingress(service)(), num_replicas=2, ray_actor_options={"num_cpus": 0.5}
    ).bind()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_replica_killed_under_load_loses_only_what_it_had_in_hand(classes):
    pytest.importorskip("grpc", reason='Ray Serve is not installed: pip install "cbdl[ray-serve]"')
    with local_ray():
        from ray import serve

        port = free_port()
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        try:
            serve.run(deployed(serve, str(classes)))
            _kill_one(f"http://127.0.0.1:{port}")
        finally:
            serve.shutdown()


def _kill_one(url: str) -> None:
    question = {"rows": [{"x": 0.5, "z": -1.0, "colour": "red"}]}
    seen: Counter[str] = Counter()
    failures: list[tuple[float, float, str]] = []
    stop = [False]

    def client() -> None:
        with httpx.Client(timeout=60) as session:
            while not stop[0]:
                start = time.monotonic()
                try:
                    reply = session.post(f"{url}/v1/predict", json=question)
                    problem = "" if reply.status_code == 200 else f"{reply.status_code} {reply.text[:100]}"
                except httpx.HTTPError as error:
                    problem = repr(error)
                if problem:
                    failures.append((start, time.monotonic(), problem))
                else:
                    seen[reply.headers["X-Process"]] += 1

    with ThreadPoolExecutor(WORKERS) as pool:
        for _ in range(WORKERS):
            pool.submit(client)
        try:
            _wait(lambda: len(seen) == 2 and min(seen.values()) > 5)
            assert not failures
            victim, other = seen
            killed = time.monotonic()
            os.kill(int(victim), signal.SIGKILL)
            before = seen[other]
            _wait(lambda: seen[other] > before + 50)
            _wait(lambda: len(seen) == 3)  # another one takes its place
        finally:
            stop[0] = True
    print(dict(seen), failures)
    # every failure is of a request that was under way when the process died
    assert len(failures) <= WORKERS
    assert all(start <= killed for start, _, _ in failures)


def _wait(condition) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
