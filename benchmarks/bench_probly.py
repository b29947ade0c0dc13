"""Credal sets over classes against probly 0.3 (the last version for Python 3.11): the hull's upper entropy, Hartley.

The package is no dependency: install it by hand (`pip install --no-deps probly==0.3.0 tqdm`); without it there are no
rows. The same arrays go to both; probly takes one set after the other, so it is timed on a few and scaled. What it
answers is compared with ours: Hartley is the same number, and its upper entropy is never above ours.
"""

from __future__ import annotations

import contextlib
import io
import math
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
import torch

from benchmarks._table import Row, best_of
from cbdl import CategoricalCredalSet

SETS, EXTREMES, CLASSES = 10_000, 10, 10
ENTROPIES, HARTLEYS = 100, 3
"""Sets on which the peer is timed."""


def rows() -> list[Row]:
    found = find_spec("probly")
    if found is None:
        return []
    # the measures alone: the package as a whole imports torchvision, which they do not need
    package = ModuleType("probly")
    package.__path__ = list(found.submodule_search_locations or [])
    sys.modules["probly"] = package
    peer = import_module("probly.quantification.classification")
    source = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(SETS, EXTREMES, CLASSES, generator=source, dtype=torch.float64)
    probs = torch.softmax(logits, -1).numpy()
    return [_upper_entropy(probs, peer), _hartley(probs, peer)]


def _upper_entropy(probs: np.ndarray, probly: Any) -> Row:
    seconds = best_of(lambda: CategoricalCredalSet(probs).upper_entropy())
    few = probs[:ENTROPIES]
    ours = np.asarray(CategoricalCredalSet(few).upper_entropy())
    theirs = quietly(lambda: probly.upper_entropy_convex_hull(few, base=math.e))
    if (theirs > ours + 1e-6).any():
        raise RuntimeError("probly found more entropy than the certified maximum")
    peer = (
        best_of(lambda: quietly(lambda: probly.upper_entropy_convex_hull(few, base=math.e)), 2)
        * SETS
        / ENTROPIES
    )
    note = (
        f"probly timed on {ENTROPIES} sets; it stops up to {(ours - theirs).max():.1e} nats below the maximum"
    )
    what = f"upper entropy of the hull, {SETS} sets, m={EXTREMES}, J={CLASSES}"
    return Row(what, seconds, "probly 0.3", peer, 100, note)


def _hartley(probs: np.ndarray, probly: Any) -> Row:
    seconds = best_of(lambda: CategoricalCredalSet(probs).generalized_hartley())
    few = probs[:HARTLEYS]
    theirs = quietly(lambda: probly.generalised_hartley(few, base=math.e))
    np.testing.assert_allclose(theirs, CategoricalCredalSet(few).generalized_hartley(), atol=1e-9)
    peer = best_of(lambda: quietly(lambda: probly.generalised_hartley(few, base=math.e)), 1) * SETS / HARTLEYS
    what = f"generalized Hartley, {SETS} sets, m={EXTREMES}, J={CLASSES}"
    return Row(what, seconds, "probly 0.3", peer, 100, f"probly timed on {HARTLEYS} sets; same values")


def quietly(work: object) -> np.ndarray:
    """What the work gives, without the bars that it draws."""
    with contextlib.redirect_stderr(io.StringIO()):
        return np.asarray(work())  # type: ignore[operator]
