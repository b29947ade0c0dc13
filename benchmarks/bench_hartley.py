"""Generalized Hartley, against the textbook double loop over events and their subsets."""

from __future__ import annotations

import math

import numpy as np
import torch

from benchmarks._table import Row, best_of
from cbdl.credal.classes.hartley import generalized_hartley

SETS, PEER_SETS, PEER_MEASURED, EXTREMES, CLASSES = 10_000, 500, 5, 10, 10


def rows() -> list[Row]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(SETS, EXTREMES, CLASSES, generator=generator, dtype=torch.float64)
    P = torch.softmax(2 * logits, -1)
    seconds = best_of(lambda: generalized_hartley(P))
    few = P[:PEER_MEASURED]
    np.testing.assert_allclose([_textbook(p) for p in few.numpy()], generalized_hartley(few), atol=1e-9)
    peer = best_of(lambda: [_textbook(p) for p in few.numpy()], repeats=2) * PEER_SETS / PEER_MEASURED
    return [
        Row(
            f"generalized Hartley, {SETS} sets, m={EXTREMES}, J={CLASSES}",
            seconds,
            f"textbook double loop, only {PEER_SETS} sets",
            peer,
            1,
            f"the loop timed on {PEER_MEASURED} sets and scaled to {PEER_SETS}; same values",
        )
    ]


def _textbook(P: np.ndarray) -> float:
    """sum over A of m(A) log|A|, m(A) = sum over B in A of (-1)^|A - B| lowerP(B)."""
    n = P.shape[1]
    bits = np.arange(1 << n)[:, None] >> np.arange(n) & 1
    lower = (P @ bits.T).min(0).tolist()
    total = 0.0
    for a in range(1, 1 << n):
        mass, b = 0.0, a
        while b:
            mass += (-1) ** (a ^ b).bit_count() * lower[b]
            b = (b - 1) & a
        total += mass * math.log(a.bit_count())
    return total
