"""The minimal region of classes, against one integer programme a set."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, milp

from benchmarks._table import Row, best_of
from cbdl.credal.classes.regions import class_region

SETS, PEER_SETS, EXTREMES, CLASSES, ALPHA = 10_000, 100, 10, 10, 0.1


def rows() -> list[Row]:
    generator = torch.Generator().manual_seed(0)
    # Logits that all extremes share plus their own: sizes from 2 to 9, most sets not settled by bounds.
    common = torch.randn(SETS, 1, CLASSES, generator=generator, dtype=torch.float64)
    own = torch.randn(SETS, EXTREMES, CLASSES, generator=generator, dtype=torch.float64)
    P = torch.softmax(1.5 * common + own, -1)
    seconds = best_of(lambda: class_region(P, ALPHA, "minimal"))
    few = P[:PEER_SETS].numpy()
    sizes = class_region(P[:PEER_SETS], ALPHA, "minimal").sum(-1).tolist()
    assert [_milp(p) for p in few] == sizes, "milp finds other sizes"
    peer = best_of(lambda: [_milp(p) for p in few], repeats=2) * SETS / PEER_SETS
    return [
        Row(
            f"minimal region, {SETS} sets, m={EXTREMES}, J={CLASSES}",
            seconds,
            "scipy milp one by one",
            peer,
            50,
            f"milp timed on {PEER_SETS} sets and scaled; same sizes",
        )
    ]


def _milp(p: np.ndarray) -> int:
    n = p.shape[1]
    cover = LinearConstraint(p, 1 - ALPHA - 1e-9)
    return round(milp(np.ones(n), constraints=cover, integrality=np.ones(n), bounds=Bounds(0, 1)).fun)
