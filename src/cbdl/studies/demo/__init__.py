"""The demo: Algorithm 1 on real data that comes with scikit-learn, in about a minute on two cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from cbdl.studies.demo import diabetes, digits, outcomes
from cbdl.studies.part import Part
from cbdl.studies.study import Context, Study


@contextmanager
def _one_thread() -> Iterator[None]:
    """On a busy machine of two cores the demo took 24 s on one thread and 139 s on two; a quiet one was not tried."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def parts(context: Context) -> Iterator[Part]:
    """The paper's example, which needs no training; then digits and diabetes, unless the profile is "smoke"."""
    yield outcomes.part()
    if context.profile == "smoke":
        return
    with _one_thread():
        context.note("\nTraining on handwritten digits ...")
        yield digits.part(context.seed)
        context.note("\nTraining on the diabetes data ...")
        yield diabetes.part(context.seed)


STUDY = Study("demo", "What the model knows, and what it does not", ("smoke", "cpu"), parts)
