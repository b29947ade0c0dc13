"""Highest density regions of Normal mixtures: exact and batched, against ArviZ on samples one by one."""

from __future__ import annotations

import time
import warnings

import numpy as np
import torch

from benchmarks._table import Row, best_of
from cbdl.credal.line.sets import MixtureCredalSet

SETS, EXTREMES, COMPONENTS, ALPHA = 10_000, 4, 20, 0.05
DRAWS, SAMPLED = 4_000, 50


def mixtures(sets: int, spread: float = 0.7, low: float = 0.5) -> MixtureCredalSet:
    """Predictive mixtures as Bayesian regression gives them: 20 draws around each member's mean.

    By default the draws spread by less than the noise and most mixtures have one mode; with spread 2 and
    scales from 0.3 they have three on average.
    """
    rng = np.random.default_rng(0)
    shape = (sets, EXTREMES, COMPONENTS)
    loc = rng.normal(0, 2, (sets, EXTREMES, 1)) + rng.normal(0, spread, shape)
    return MixtureCredalSet(loc, rng.uniform(low, 1.0, shape))


def arviz_seconds(cs: MixtureCredalSet) -> tuple[float, float]:
    """Seconds for one mixture, and the median error of the region's ends where the count of ends agrees."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz

    few = cs[:SAMPLED]
    draws = np.asarray(few.sample(DRAWS, seed=0))
    seconds, errors = 0.0, []
    for b in range(SAMPLED):
        x = draws[:, b, 0]
        start = time.perf_counter()
        ends = arviz.hdi(x, hdi_prob=1 - ALPHA, multimodal=True)
        seconds += time.perf_counter() - start
        one = MixtureCredalSet(few.loc[b, :1], few.scale[b, :1])
        exact = one.region(ALPHA).intervals
        ends = ends[~np.isnan(ends[:, 0])]
        if ends.shape == exact.shape:
            errors.append(np.abs(ends - exact).max())
    return seconds / SAMPLED, float(np.median(errors)) if errors else float("nan")


def exactness(cs: MixtureCredalSet) -> float:
    """The largest error of the mass of each extreme's own region, over all sets."""
    from cbdl.credal.line.hdr import hdr, log_outside

    mix = cs[:1000]._flat().each()
    level, ends = hdr(mix, ALPHA)
    return float((log_outside(mix, ends, level)[0].exp() - ALPHA).abs().max())


def hdr_row(what: str, cs: MixtureCredalSet) -> Row:
    cs[:64].region(ALPHA)
    ours = best_of(lambda: cs.region(ALPHA), 2)
    peer, error = arviz_seconds(cs)
    note = (
        f"{SETS * EXTREMES} mixtures; mass exact to {exactness(cs):.0e}; arviz ends off by {error:.2f} (median), "
        f"measured on {SAMPLED} and scaled; {torch.get_num_threads()} threads"
    )
    total = peer * SETS * EXTREMES
    return Row(what, ours, "arviz.hdi(multimodal=True), 4,000 draws", total, 50.0, note)


def rows() -> list[Row]:
    """Threads that wait for each other on a busy machine distort the figures: OMP_NUM_THREADS=1 helps."""
    return [
        hdr_row("HDRs of 10,000 sets (m = 4, M = 20)", mixtures(SETS)),
        hdr_row("the same, three modes each", mixtures(SETS, spread=2.0, low=0.3)),
    ]
