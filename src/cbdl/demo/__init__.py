"""The demo: Algorithm 1 on real data that comes with scikit-learn, in about a minute on two cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from cbdl.demo import diabetes, digits, outcomes, report
from cbdl.demo.part import Part

__all__ = ["Part", "run"]


@contextmanager
def _one_thread() -> Iterator[None]:
    """On a busy machine of two cores the demo took 24 s on one thread and 139 s on two; a quiet one was not tried."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run(
    out: str | Path | None,
    seed: int = 0,
    note: Callable[[str], None] = lambda text: None,
    show: Callable[[Part], None] | None = None,
) -> dict[str, Any]:
    """All parts one after the other, each shown as soon as it is there; then the report in the folder `out`.

    Without `out`, only the paper's example, which needs no training. `note` hears what is being done.
    """
    parts: list[Part] = []

    def add(part: Part) -> None:
        parts.append(part)
        if show is not None:
            show(part)

    add(outcomes.part())
    if out is not None:
        report.check(out)
        with _one_thread():
            note("\nTraining on handwritten digits ...")
            add(digits.part(seed))
            note("\nTraining on the diabetes data ...")
            add(diabetes.part(seed))
        note(f"\nReport: {report.write(out, parts, note)}")
    return {part.name: part.numbers for part in parts}
