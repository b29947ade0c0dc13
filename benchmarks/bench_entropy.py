"""Upper entropy of 10,000 sets of 10 distributions over 10 classes, peaked and diffuse ones.

Peers: (a) scipy SLSQP set by set, with the exact gradient and the tolerance at which its errors are below
1e-8 as ours are (ftol 1e-12), measured on a sample and scaled up; (b) one joint L-BFGS over the softmax
weights of all sets at once, 128 iterations with a strong Wolfe line search, in float64, which is how probly
0.9 does it. All run in the same process with the same number of threads.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from benchmarks._table import Row, best_of
from cbdl.credal.entropy import entropy, upper_entropy

SETS, M, J = 10_000, 10, 10
SAMPLE = 200


def sets() -> Tensor:
    """Half of them diffuse (logits N(0, 1)), half peaked (logits N(0, 36))."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(SETS, M, J, generator=generator, dtype=torch.float64)
    logits[SETS // 2 :] *= 6
    return torch.softmax(logits, -1)[torch.randperm(SETS, generator=generator)]


def slsqp(P: np.ndarray) -> float:
    def f(beta: np.ndarray) -> tuple[float, np.ndarray]:
        q = np.clip(beta @ P, 1e-300, None)
        log_q = np.log(q)
        return float(q @ log_q), P @ (log_q + 1)

    ones = np.ones(len(P))
    equality = {"type": "eq", "fun": lambda b: b.sum() - 1, "jac": lambda b: ones}
    start = ones / len(P)
    options = {"ftol": 1e-12, "maxiter": 200}
    best = minimize(
        f, start, jac=True, bounds=[(0, 1)] * len(P), constraints=equality, method="SLSQP", options=options
    )
    return -float(best.fun)


def joint_lbfgs(P: Tensor) -> Tensor:
    logits = torch.zeros(P.shape[:2], dtype=P.dtype, requires_grad=True)
    optimiser = torch.optim.LBFGS([logits], max_iter=128, line_search_fn="strong_wolfe")

    def mixture_entropy() -> Tensor:
        return entropy((logits.softmax(-1).unsqueeze(-1) * P).sum(-2))

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = -mixture_entropy().sum()
        value.backward()
        return value

    optimiser.step(loss)
    with torch.no_grad():
        return mixture_entropy()


def rows() -> list[Row]:
    P = sets()
    upper_entropy(P[:100])
    seconds = best_of(lambda: upper_entropy(P), repeats=7)
    ours = upper_entropy(P)

    sample = P[:SAMPLE].numpy()
    slsqp_seconds = best_of(lambda: [slsqp(p) for p in sample]) * SETS / SAMPLE
    theirs = torch.tensor([slsqp(p) for p in sample], dtype=torch.float64)
    slsqp_error = float((ours.value[:SAMPLE] - theirs).abs().max())

    lbfgs_seconds = best_of(lambda: joint_lbfgs(P), repeats=2)
    off = ours.value - joint_lbfgs(P)

    what = f"upper entropy, {SETS} sets, m = {M}, J = {J}"
    gap = f"our gaps <= {float(ours.gap.max()):.0e}"
    return [
        Row(
            what,
            seconds,
            "scipy SLSQP with gradient, one by one",
            slsqp_seconds,
            100,
            f"{gap}; peer timed on {SAMPLE} sets, off by <= {slsqp_error:.0e}",
        ),
        Row(
            what,
            seconds,
            "one joint L-BFGS, 128 iterations",
            lbfgs_seconds,
            4,
            f"{gap}; peer off by <= {float(off.max()):.2g}, by > 1e-3 in {float((off > 1e-3).double().mean()):.0%}",
        ),
    ]
