"""Laplace's approximation: a Normal around the mode with the curvature there (Step 3, after training).

All of it is our own, not laplace-torch: that library holds one network, takes one scalar (or per layer) prior
precision around zero, and has no members' axis. Here all members are one batch, and the prior of every
member enters coordinate by coordinate, with its location, in the mode and in the precision.

Three approximations of the likelihood's curvature: `full` (the generalised Gauss-Newton matrix, exact for
linear models with Normal noise), `kronecker` (for each Linear and Conv2d layer a Kronecker product of the
second moments of its inputs and of the derivatives by its outputs), `diagonal`; over all parameters or a part of them.

A Gauss-Newton matrix is the curvature of the network made linear at the mode, so that is the network whose
predictions fit it: f(x, mode) + J(x) (theta - mode) (Immer et al. 2021). Draws through the network itself
(`linearised=False`) leave the neighbourhood in which the Normal holds and are wider.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from cbdl.bayes._densities import HALF_LOG_2PI
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.draws import common_normal
from cbdl.bayes.forward import Buffers
from cbdl.bayes.rows import TrainingData
from cbdl.bayes.tangent import linearised, refusal
from cbdl.bayes.train import Plan, Record, Run, TrainingWarning, train

from ._curvature import Part, gauss_newton, gauss_newton_diagonal, prior_precision
from ._modes import ModeObjective
from ._points import Potential
from ._tune import best_factor, stiffened
from .protocol import Method, Posterior, common, named, prefixed

LARGEST = 6000
"""Coordinates that a full matrix may have."""
SMALL = 1500
"""Coordinates up to which the matrix is full unless something else is asked for."""
TUNINGS = 5
"""Times that prior precision and mode follow each other."""


@dataclass(frozen=True)
class Laplace(Plan, Method):
    """Settings: the training of the mode (as for Ensemble), then which curvature of which parameters.

    `part`: "all", "last" (the module that owns the last parameter), or a pattern of parameter names; the
    other parameters stay at the mode. A learned noise scale maximises the evidence and then stays. For priors that
    are not Normal the precision is that of the Normal with the same centre and the same slope at the mode.

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> likelihoods = [cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, (4,)), scale=0.1)]
    >>> method = cbdl.Laplace(epochs=2)
    >>> cbdl.CBDL([cbdl.priors.Normal(0, 1)], likelihoods, method, verbose=False).fit(X, X[:, 0])
    CBDL(1 prior x 1 likelihood, Laplace, trained on 20 rows)
    """

    hessian: Literal["full", "kronecker", "diagonal"] | None = None
    """None: "full" for up to 1500 parameters, "kronecker" for more."""
    part: str = "all"
    newton: int = 5
    """With a full matrix: at most so many Newton steps on the part, so that the mode is one (each costs as
    much as the matrix; none is made once the mode is within 1e-3 posterior standard deviations).
    """
    linearised: bool = True
    """Predict with the network made linear at the mode; False: with the networks of the draws."""
    tune_prior: bool = False
    """Multiply each member's prior precision by the number that maximises its evidence. A member is its prior, so this
    replaces the priors of a credal set by others; it is for priors whose scales mean nothing, and Normal ones only."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hessian not in ("full", "kronecker", "diagonal", None):
            raise ValueError(f'hessian is {self.hessian!r}; give "full", "kronecker", "diagonal" or None')
        if self.newton < 0:
            raise ValueError(f"newton is {self.newton}; it must be at least 0")

    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> LaplacePosterior:
        """The modes of all members, trained together, and the curvature at each."""
        part = self._part(cohort)
        self._check(cohort, data)
        trainee = ModeObjective(cohort, data, cohort.initial.unsqueeze(1))
        record = train(
            trainee, data, self.plan_for(cohort.layout), run, {**cohort.fingerprint(), "method": repr(self)}
        )
        mode, noise = trainee.theta[:, 0].clone(), trainee.noise.clone()
        with torch.no_grad():
            posterior = self.around(cohort, data, mode, noise, trainee.buffers, part, record)
            return self._tuned(cohort, data, posterior) if self.tune_prior else posterior

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
        potential, hessian = Potential(cohort, data, buffers), self._hessian(part)
        if hessian == "full":
            mode, precision = _newton(potential, mode, noise, part, self.newton)
            factor, scale = _factor(precision)
            eye = torch.eye(part.size, dtype=factor.dtype, device=factor.device)
            inverse = torch.linalg.solve_triangular(factor, eye, upper=False)
            spread = {"root": scale.unsqueeze(2) * inverse.mT}
            half_log_det = factor.diagonal(dim1=1, dim2=2).log().sum(1) - scale.log().sum(1)
            _tell(record, precision)
        elif hessian == "diagonal":
            own = gauss_newton_diagonal(cohort, mode, noise, buffers, data, part)
            own += prior_precision(cohort, mode)[:, part.index]
            spread, half_log_det = {"sigma": own.rsqrt()}, 0.5 * own.log().sum(1)
        else:
            from ._kronecker import kronecker

            spread, half_log_det = kronecker(cohort, mode, noise, buffers, data, part)
        energy = potential(mode.unsqueeze(1), noise)[0][:, 0].double()
        evidence = -energy + part.size * HALF_LOG_2PI - half_log_det
        spread = {n: s.to(mode.dtype) for n, s in spread.items()}
        one = torch.ones_like(evidence)
        return LaplacePosterior(
            mode,
            part,
            spread,
            evidence,
            one,
            self.linearised,
            seeds=cohort.seeds,
            noise=noise,
            buffers=buffers,
            record=record,
        )

    def from_state(self, cohort: Cohort, state: Mapping[str, Tensor]) -> LaplacePosterior:
        """The posterior that `state()` of another one describes."""
        return LaplacePosterior.from_state(cohort, state, self._part(cohort), self.linearised)

    def _hessian(self, part: Part) -> str:
        return self.hessian or ("full" if part.size <= SMALL else "kronecker")

    def _tuned(self, cohort: Cohort, data: TrainingData, posterior: LaplacePosterior) -> LaplacePosterior:
        """The posterior under priors whose precisions are multiplied by what the evidence asks for."""
        own, factor = cohort, torch.ones_like(posterior.evidence)
        for _ in range(TUNINGS):
            step = best_factor(own, posterior.mode, posterior.part, posterior.spread)
            factor = factor * step
            own = replace(own, prior=stiffened(own.prior, step))
            posterior = self.around(
                own,
                data,
                posterior.mode,
                posterior.noise,
                posterior.buffers,
                posterior.part,
                posterior.record,
            )
        return replace(posterior, factor=factor)

    def _check(self, cohort: Cohort, data: TrainingData) -> None:
        """A ValueError, before anything is trained, for what cannot be done with this network and these priors."""
        if self.tune_prior and cohort.prior.normal is None:
            raise ValueError("tune_prior is for Normal priors; give those, or tune_prior=False")
        if not self.linearised:
            return
        reason = refusal(cohort.forward, cohort.initial, data.held.x, cohort.initial_buffers)
        if reason is not None:
            raise ValueError(
                f"Laplace(linearised=True) needs derivatives along a direction, which this network does not have "
                f"({reason}); give linearised=False"
            )

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
    factors of the layers. `evidence` (members,): Laplace's approximation of the log marginal likelihood. `factor`
    (members,): what the precisions of the members' priors were multiplied by.
    """

    mode: Tensor
    part: Part
    spread: dict[str, Tensor]
    evidence: Tensor
    factor: Tensor
    linearised: bool

    @classmethod
    def from_state(
        cls, cohort: Cohort, state: Mapping[str, Tensor], part: Part, linearised: bool
    ) -> LaplacePosterior:
        spread, own = named(state, "spread"), common(cohort, state)
        return cls(state["mode"], part, spread, state["evidence"], state["factor"], linearised, **own)

    @property
    def plain(self) -> bool:
        return not self.linearised

    def outputs(self, cohort: Cohort, theta: Tensor, x: Tensor) -> Tensor:
        """Those of the network made linear at the mode, unless `linearised` is False."""
        if not self.linearised:
            return cohort.forward(theta, x, self.buffers)
        return linearised(cohort.forward, self.mode, theta, x, self.buffers)

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
            "factor": self.factor,
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
