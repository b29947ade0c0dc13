"""Smooth convex functions minimised over the probability simplex, for a whole batch of sets at once.

A mixture of extremes, sum_j beta_j P_j, is a point beta of the simplex; the upper entropy (section 2.3) and
the distances to a set are minima of convex functions of beta. Each is solved by a primal-dual interior point
with a predictor and a corrector (Mehrotra): one m x m Cholesky factor per set and step. Inside, the batch is
the last dimension, so that every elementary operation runs over contiguous numbers of many sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal.solvers.cholesky import Cholesky

Hessian = Tensor | Callable[[Tensor], Tensor]
"""(b, m, m), or a function that makes it for some of the b sets: stay (s,) -> (s, m, m)."""

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Hessian]]
"""objective(beta (b, m), rows (b,)) -> value (b,), gradient (b, m), Hessian."""


@dataclass(frozen=True)
class Minimum:
    """point (B, m) in the simplex, value (B,) there, gap (B,) >= value - minimum, and the steps taken."""

    point: Tensor
    value: Tensor
    gap: Tensor
    steps: int


def minimise(
    objective: Objective,
    batch: int,
    m: int,
    *,
    device: torch.device,
    tolerance: float = 1e-10,
    max_steps: int = 80,
    start: Tensor | None = None,
) -> Minimum:
    """min f(beta) over beta >= 0, sum_j beta_j = 1, for every set of the batch.

    The certificate is g.beta - min_j g_j >= f(beta) - min f, with g the gradient (convexity; Frank, Wolfe).
    A set is done when it is at most `tolerance` * max(1, |f|), and then keeps that point whatever the others
    do. After `max_steps` the best certified point is returned, with a gap that says how good it is.

    `start` (B, m), strictly inside the simplex, is a warm start; the default is uniform weights.
    `rows` names the sets that are asked for; sets only ever leave, so as long as their number is the same an
    objective may keep what it gathered. Of the Hessian only the lower triangle is read, before the next call;
    it may be any strided view. Views of (m, m, b) memory save time, and so does a function that is called only
    when sets go on.

    >>> target = torch.tensor([[0.2, 0.8], [1.5, -0.5]], dtype=torch.float64)
    >>> def half_square(beta, rows):
    ...     d = beta - target[rows]
    ...     return (d * d).sum(-1) / 2, d, torch.eye(2, dtype=torch.float64).expand(len(rows), 2, 2)
    >>> minimise(half_square, 2, 2, device=target.device).point.round(decimals=6)
    tensor([[0.2000, 0.8000],
            [1.0000, 0.0000]], dtype=torch.float64)
    """
    run = _Run(objective, batch, m, device, tolerance, start)
    steps = 0
    while run.live.any() and steps < max_steps:
        run.step()
        steps += 1
    run.keep()
    return Minimum(run.point.T.contiguous(), run.value, run.certificate, steps)


class _Run:
    """The sets still in the batch, (m, b) each, with the best point of each so far; and the answers of all."""

    def __init__(
        self,
        objective: Objective,
        batch: int,
        m: int,
        device: torch.device,
        tolerance: float,
        start: Tensor | None,
    ) -> None:
        self.objective, self.tolerance = objective, tolerance
        self.rows = torch.arange(batch, device=device)
        self.beta = torch.full((m, batch), 1 / m, dtype=torch.float64, device=device)
        if start is not None:
            self.beta.copy_(start.T)
        self.best_beta, self.point = self.beta, self.beta.clone()
        self.gap = self.best_gap = self.best_value = torch.full_like(self.beta[0], torch.inf)
        self.certificate, self.value = self.best_gap.clone(), self.best_gap.clone()
        self.live = self.bold = torch.ones_like(self.rows, dtype=torch.bool)
        self.kkt = Cholesky(m, batch, device)
        self._evaluate()
        # Multipliers that are dual feasible from the start: z = g - min g, moved off zero.
        self.z = self.gradient - self.gradient.amin(0) + 0.1 * self.gap
        self._compact()

    def _evaluate(self) -> None:
        """f and its derivatives at beta; the best certified point is kept; sets that are done stop."""
        value, gradient, self.hessian = self.objective(self.beta.T, self.rows)
        self.gradient = gradient.T.contiguous()
        gap = ((self.gradient - self.gradient.amin(0)) * self.beta).sum(0)
        better = self.live & (gap < self.best_gap)
        self.best_beta = torch.where(better, self.beta, self.best_beta)
        self.best_gap = torch.where(better, gap, self.best_gap)
        self.best_value = torch.where(better, value, self.best_value)
        self.bold = self.bold & (gap < 0.9 * self.gap)
        self.gap = gap
        # A gap that is not a number (an objective out of its range) stops the set too: its best point stands.
        self.live = self.live & (gap > self.tolerance * value.abs().clamp_min(1))

    def keep(self) -> None:
        """The best points become the answers."""
        self.point[:, self.rows] = self.best_beta
        self.certificate[self.rows], self.value[self.rows] = self.best_gap, self.best_value

    def _compact(self) -> None:
        """Sets that stopped leave, once they are enough to be worth the copy."""
        left = int(self.live.sum())
        if left > 0.85 * self.rows.shape[0] or not left:
            self.stay = torch.arange(self.rows.shape[0], device=self.rows.device)
            return
        self.keep()
        self.stay = stay = self.live.nonzero()[:, 0]
        for name in ("rows", "live", "bold", "gap", "best_gap", "best_value"):
            setattr(self, name, getattr(self, name)[stay])
        for name in ("beta", "z", "gradient", "best_beta"):
            setattr(self, name, getattr(self, name)[:, stay])
        self.kkt = Cholesky(self.beta.shape[0], left, stay.device)

    def _hessian(self) -> Tensor:
        """(m, m, b): of the sets that stayed."""
        if callable(self.hessian):
            return self.hessian(self.stay).permute(1, 2, 0)
        every = self.stay.shape[0] == self.hessian.shape[0]
        return (self.hessian if every else self.hessian[self.stay]).permute(1, 2, 0)

    def step(self) -> None:
        """One Newton step on g - nu 1 - z = 0, sum_j beta_j = 1, beta_j z_j = sigma mu.

        Eliminating dz = target - z - (z / beta) dbeta leaves one m x m system for dbeta. With the relative step
        r = dbeta / beta, everything the predictor must know is a sum of products (beta z) r and (beta z) r^2.
        """
        beta, z, kkt = self.beta, self.z, self.kkt
        product = beta * z
        mu = product.mean(0)
        kkt.factor(self._hessian(), z / beta)
        right = torch.empty(beta.shape[0], 2, beta.shape[1], dtype=beta.dtype, device=beta.device)
        torch.neg(self.gradient, out=right[:, 0])
        right[:, 1] = 1
        free, ones = kkt.solve_(right).unbind(1)
        ones = ones / ones.sum(0)

        # Predictor, target 0: how far the complementarity can fall at once.
        r = torch.addcmul(free, free.sum(0), ones, value=-1).div_(beta)
        t_beta, t_z = _within(r.amin(0)), _within(-1 - r.amax(0))
        first = product * r
        second = first * r
        after = (1 - t_z) * mu + (t_beta - t_beta * t_z - t_z) * first.mean(0) - t_beta * t_z * second.mean(0)
        sigma = (after / mu).clamp(0, 1) ** 3
        sigma = torch.where(self.bold, sigma, sigma.clamp_min(0.1))

        # Corrector: towards the centre, with the second-order term of the predictor, dbeta dz.
        target = first.add_(second).add_(sigma * mu).div_(beta)
        free = free + kkt.solve_(target.clone()[:, None])[:, 0]
        d_beta = torch.addcmul(free, free.sum(0), ones, value=-1)
        r = d_beta / beta
        r_z = target.div_(z).sub_(r)

        keep = torch.where(self.bold, (1 - mu).clamp(0.99, 1 - 1e-6), 0.99)
        t = keep * torch.minimum(_within(r.amin(0)), _within(r_z.amin(0) - 1))
        self._move(torch.addcmul(beta, t, d_beta), r_z.mul_(t).add_(1 - t).mul_(z))

    def _move(self, beta: Tensor, z: Tensor) -> None:
        """The next point, recentred where needed, evaluated.

        Bold steps go almost to the boundary, which is fast; but a weight that is crushed by mistake recovers
        slowly, and the corrector may cycle on nearly equal extremes. So a set that once made no progress goes
        on with care: never far from the central path beta_j z_j = mu.
        """
        self.beta, self.z = beta.div_(beta.sum(0)), z
        if not self.bold.all():
            centre = (self.beta * z).mean(0) / self.beta
            careful = torch.minimum(torch.maximum(z, 1e-3 * centre), 1e3 * centre)
            self.z = torch.where(self.bold, z, careful)
        self._evaluate()
        self._compact()


def _within(least: Tensor) -> Tensor:
    """(b,): the largest step t <= 1 that keeps 1 + t * least >= 0, for the least relative change."""
    return 1 / (-least).clamp_min(1)
