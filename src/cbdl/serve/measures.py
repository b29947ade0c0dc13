"""What a service counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
NATS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Measures:
    """The counters of one application; others in the same process have their own."""

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()
        self._requests = Counter("cbdl_requests", "Requests answered.", ("path", "status"), registry=own)
        self._seconds = Histogram(
            "cbdl_request_seconds", "Time to answer.", ("path",), registry=own, buckets=SECONDS
        )
        self._rows = Counter("cbdl_rows", "Rows answered.", registry=own)
        self._abstained = Counter("cbdl_abstained_rows", "Rows on which the model abstained.", registry=own)
        self._epistemic = Histogram(
            "cbdl_epistemic_nats", "Epistemic uncertainty of rows.", registry=own, buckets=NATS
        )
        self._batch_rows = Histogram(
            "cbdl_batch_rows", "Rows answered together.", registry=own, buckets=SIZES
        )
        self._batch_requests = Histogram(
            "cbdl_batch_requests", "Requests answered together.", registry=own, buckets=SIZES
        )
        self._waiting = Gauge("cbdl_waiting_rows", "Rows that wait for their turn.", registry=own)

    def watch(self, waiting: Callable[[], float]) -> None:
        """Ask `waiting` for the rows in the queue."""
        self._waiting.set_function(waiting)

    def request(self, path: str, status: int, seconds: float) -> None:
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def batch(self, requests: int, rows: int) -> None:
        self._batch_requests.observe(requests)
        self._batch_rows.observe(rows)

    def answers(self, epistemic: list[float], abstained: int) -> None:
        self._rows.inc(len(epistemic))
        self._abstained.inc(abstained)
        for nats in epistemic:
            self._epistemic.observe(nats)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)
