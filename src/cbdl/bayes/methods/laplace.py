"""Laplace's approximation: a Normal around the mode with the curvature there (Step 3, after training).

All of it is our own, not laplace-torch: that library holds one network, takes one scalar (or per layer) prior
precision around zero, and has no members' axis. Here all members are one batch, and the prior of every
member enters coordinate by coordinate, with its location, in the mode and in the precision.

Three approximations of the likelihood's curvature: `full` (the generalised Gauss-Newton matrix, exact for
linear models with Normal noise), `kronecker` (for each Linear and Conv2d layer a Kronecker product of the
second moments of its inputs and of the derivatives by its outputs), `diagonal`; over all parameters, a part,
or the last layer (default). A network is linear in its last layer, so that there the draws of `sample` give
the linearised predictive distribution; for deeper parts draws through the network can be wider than it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from cbdl.bayes._densities import HALF_LOG_2PI
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.draws import common_normal
from cbdl.bayes.forward import Buffers
from cbdl.bayes.rows import TrainingData
from cbdl.bayes.train import Plan, Record, Run, TrainingWarning, train

from ._curvature import Part, gauss_newton, gauss_newton_diagonal, prior_precision
from ._modes import ModeObjective
from ._points import Potential
from .protocol import Method, Posterior, common, named, prefixed

LARGEST = 6000
"""Coordinates that a full matrix may have."""


@dataclass(frozen=True)
class Laplace(Plan, Method):
    """Settings: the training of the mode (as for Ensemble), then which curvature of which parameters.

    `part`: "last" (the module that owns the last parameter), "all", or a pattern of parameter names; the
    other parameters stay at the mode. A learned noise scale stays at its value at the mode. For priors that
    are not Normal the precision is that of the Normal with the same centre and the same slope at the mode.
    """

    hessian: Literal["full", "kronecker", "diagonal"] = "full"
    part: str = "last"
    newton: int = 5
    """With a full matrix: at most so many Newton steps on the part, so that the mode is one (each costs as
    much as the matrix; none is made once the mode is within 1e-3 posterior standard deviations).
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hessian not in ("full", "kronecker", "diagonal"):
            raise ValueError(f'hessian is {self.hessian!r}; give "full", "kronecker" or "diagonal"')
        if self.newton < 0:
            raise ValueError(f"newton is {self.newton}; it must be at least 0")

    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> LaplacePosterior:
        """The modes of all members, trained together, and the curvature at each."""
        part = self._part(cohort)
        trainee = ModeObjective(cohort, data, cohort.initial.unsqueeze(1))
        record = train(trainee, data, self.plan_for(cohort.layout), run, {**cohort.fingerprint(), "method": repr(self)})
        mode, noise = trainee.theta[:, 0].clone(), trainee.noise.clone()
        with torch.no_grad():
            return self.around(cohort, data, mode, noise, trainee.buffers, part, record)

    def around(
        self,
        cohort: Cohort,
        data: TrainingData,
        mode: Tensor,
        noise: Tensor,
        buffers: Buffers,
        part: Part,
        record: Record | None = None,
    ) -> LaplacePosterior:
        """The posterior around `mode` (members, P), which must be (nearly) one."""
        potential = Potential(cohort, data, buffers)
        if self.hessian == "full":
            mode, precision = _newton(potential, mode, noise, part, self.newton)
            factor, scale = _factor(precision)
            eye = torch.eye(part.size, dtype=factor.dtype, device=factor.device)
            inverse = torch.linalg.solve_triangular(factor, eye, upper=False)
            spread = {"root": scale.unsqueeze(2) * inverse.mT}
            half_log_det = factor.diagonal(dim1=1, dim2=2).log().sum(1) - scale.log().sum(1)
            _tell(record, precision)
        elif self.hessian == "diagonal":
            own = gauss_newton_diagonal(cohort, mode, noise, buffers, data, part)
            own += prior_precision(cohort, mode)[:, part.index]
            spread, half_log_det = {"sigma": own.rsqrt()}, 0.5 * own.log().sum(1)
        else:
            from ._kronecker import kronecker

            spread, half_log_det = kronecker(cohort, mode, noise, buffers, data, part)
        energy = potential(mode.unsqueeze(1), noise)[0][:, 0].double()
        evidence = -energy + part.size * HALF_LOG_2PI - half_log_det
        spread = {n: s.to(mode.dtype) for n, s in spread.items()}
        return LaplacePosterior(
            mode, part, spread, evidence, seeds=cohort.seeds, noise=noise, buffers=buffers, record=record
        )

    def from_state(self, cohort: Cohort, state: Mapping[str, Tensor]) -> LaplacePosterior:
        """The posterior that `state()` of another one describes."""
        return LaplacePosterior.from_state(cohort, state, self._part(cohort))

    def _part(self, cohort: Cohort) -> Part:
        part = Part.of(cohort.layout, self.part, cohort.initial.device)
        if self.hessian == "full" and part.size > LARGEST:
            raise ValueError(
                f"hessian='full' would need a matrix of {part.size} x {part.size} for every member; use "
                "hessian='kronecker' or 'diagonal', or a smaller part"
            )
        return part


@dataclass(frozen=True)
class LaplacePosterior(Posterior):
    """Normal around the mode (members, P) on the coordinates of `part`; the others are constants.

    `spread` is "root" (members, p, p), covariance root root^T; or "sigma" (members, p); or the Kronecker
    factors of the layers. `evidence` (members,): Laplace's approximation of the log marginal likelihood.
    """

    mode: Tensor
    part: Part
    spread: dict[str, Tensor]
    evidence: Tensor

    @classmethod
    def from_state(cls, cohort: Cohort, state: Mapping[str, Tensor], part: Part) -> LaplacePosterior:
        return cls(state["mode"], part, named(state, "spread"), state["evidence"], **common(cohort, state))

    def sample(self, draws: int, seed: int = 0, start: int = 0) -> Tensor:
        """theta (members, draws, P) from the common base draws number start, start + 1, ... of stream `seed`."""
        eps = common_normal(seed, draws, self.part.size, like=self.mode, start=start)
        eps = eps.expand(len(self.seeds), -1, -1)
        if "root" in self.spread:
            moved = eps @ self.spread["root"].mT
        elif "sigma" in self.spread:
            moved = eps * self.spread["sigma"].unsqueeze(1)
        else:
            from ._kronecker import spread_out

            moved = spread_out(self.spread, self.part.layout, eps)
        theta = self.mode.unsqueeze(1).repeat(1, draws, 1)
        theta[..., self.part.index] += moved
        return theta

    def moments(self) -> tuple[Tensor, Tensor]:
        if "root" in self.spread:
            own = self.spread["root"].square().sum(2).sqrt()
        elif "sigma" in self.spread:
            own = self.spread["sigma"]
        else:
            from ._kronecker import deviations

            own = deviations(self.spread, self.part.layout)
        deviation = torch.zeros_like(self.mode)
        deviation[:, self.part.index] = own
        return self.mode, deviation

    def centre(self) -> Tensor:
        return self.mode

    def state(self) -> dict[str, Tensor]:
        return {
            "mode": self.mode,
            "noise": self.noise,
            "evidence": self.evidence,
            **prefixed(self.spread, "spread"),
            **prefixed(self.buffers, "buffer"),
        }


def _factor(precision: Tensor) -> tuple[Tensor, Tensor]:
    """(L, d) with precision = diag(1/d) L L^T diag(1/d): every member gets factors, whatever the others are.

    With a diagonal of ones the factorisation bears priors of very different scales. A matrix that is not
    positive definite to rounding gets the least ridge of 1e-12, 1e-9, 1e-6, ... that makes it so; one that
    holds no numbers is replaced by the identity (and `_tell` says so).
    """
    usable = torch.isfinite(precision).all(2).all(1)
    eye = torch.eye(precision.shape[1], dtype=precision.dtype, device=precision.device)
    matrix = torch.where(usable[:, None, None], precision, eye)
    scale = matrix.diagonal(dim1=1, dim2=2).clamp_min(1e-300).rsqrt()
    matrix = matrix * scale.unsqueeze(2) * scale.unsqueeze(1)
    factor, bad = torch.linalg.cholesky_ex(matrix)
    ridge = 1e-12
    while bool((bad > 0).any()) and ridge < 1e3:
        again, still = torch.linalg.cholesky_ex(matrix + ridge * eye)
        factor, bad = torch.where((bad > 0)[:, None, None], again, factor), torch.where(bad > 0, still, bad)
        ridge *= 1e3
    return factor, scale


def _tell(record: Record | None, precision: Tensor) -> None:
    """Members whose curvature holds no numbers are failures."""
    for i in (~torch.isfinite(precision).all(2).all(1)).nonzero().flatten().tolist():
        if record is None or i in record.failures:
            continue
        record.failures[i] = (
            f"member {i}: the curvature at the mode is not finite; its spread says nothing. Likely cause: a mode far "
            "out; lower the learning rate, or give a narrower prior"
        )
        warnings.warn(record.failures[i], TrainingWarning, stacklevel=4)


def _newton(
    potential: Potential, mode: Tensor, noise: Tensor, part: Part, most: int
) -> tuple[Tensor, Tensor]:
    """The mode after at most `most` damped Newton steps on the part, and the precision there, float64."""
    cohort, data = potential.cohort, potential.data

    def precision(at: Tensor) -> Tensor:
        curvature = gauss_newton(cohort, at, noise, potential.buffers, data, part)
        curvature.diagonal(dim1=1, dim2=2).add_(prior_precision(cohort, at)[:, part.index])
        return curvature

    matrix = precision(mode)
    for _ in range(most):
        value, gradient, _ = potential(mode.unsqueeze(1), noise)
        slope = gradient[:, 0, part.index].double()
        factor, scale = _factor(matrix)
        move = scale * torch.cholesky_solve((scale * slope).unsqueeze(2), factor)[..., 0]
        # half of it is what the quadratic model promises to gain; in posterior standard deviations its root
        decrement = (slope * move).sum(1)
        # each member stops by itself, so that no member depends on who else is here
        todo = ~(decrement < 1e-6)
        if not bool(todo.any()):
            break
        mode = _damped(potential, mode, noise, part, move, value[:, 0], todo)
        matrix = precision(mode)
    return mode, matrix


def _damped(
    potential: Potential, mode: Tensor, noise: Tensor, part: Part, move: Tensor, value: Tensor, todo: Tensor
) -> Tensor:
    """For the members `todo`: mode - t move for the first t of 1, 1/4, 1/16, 1/64 that does not raise the
    potential; else the mode.
    """
    best, todo = mode.clone(), todo.clone()
    for t in (1.0, 0.25, 0.0625, 0.015625):
        trial = mode.clone()
        trial[:, part.index] -= (t * move).to(mode.dtype)
        good = todo & (potential(trial.unsqueeze(1), noise)[0][:, 0] <= value)
        best[good] = trial[good]
        todo &= ~good
        if not bool(todo.any()):
            break
    return best
