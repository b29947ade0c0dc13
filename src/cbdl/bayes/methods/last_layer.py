"""Exact Bayesian linear regression on the features of one shared network: K posteriors at the cost of one.

The paper's conclusion hopes that conjugacy makes Step 3 cheap; here it does. One network is trained once, for
all members; its last layer is then Bayesian. With Normal noise of scale sigma and features phi (rows, D), the
Gram matrix phi^T phi = V diag(lambda) V^T is decomposed once, and the posterior of every Normal prior
Normal(loc_k, tau_k^2 I) is

    w_k = loc_k + V diag(tau_k^2 / (tau_k^2 lambda + sigma^2)) V^T phi^T (y - phi loc_k),
    covariance V diag(tau_k^2 sigma^2 / (tau_k^2 lambda + sigma^2)) V^T:

O(D^2) for each further prior instead of a training of its own. Priors whose scales differ within the layer
(biases, fan-in) are whitened first; priors with the same ratios of scales share a decomposition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cbdl.bayes import likelihoods
from cbdl.bayes._densities import HALF_LOG_2PI
from cbdl.bayes._random import mix
from cbdl.bayes.checkpoint import Checkpoint
from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.draws import common_normal
from cbdl.bayes.forward import Buffers
from cbdl.bayes.joint_prior import compile_priors
from cbdl.bayes.priors import Normal, Prior
from cbdl.bayes.rows import Data, TrainingData
from cbdl.bayes.train import Plan, Record, Run, train

from ._head import Head, conjugate, features
from ._modes import ModeObjective, determined_weights
from .laplace import Laplace, LaplacePosterior
from .protocol import Method, Posterior, common, prefixed

STANDARD = Normal(0.0, 1.0)
LARGE = 1 << 20
"""Numbers of a member's bases above which equal ones are kept once."""


@dataclass(frozen=True)
class LastLayer(Plan, Method):
    """Settings: how the shared network is trained, and under which prior of its own.

    The shared network starts from the run's seed and never sees the members' priors, so that it is the same
    however the members are split; a part that is frozen (`trainable`) is used as it is, and if only the last
    layer is trainable nothing is trained. The members' priors on other layers have no effect.

    Normal noise, fixed or learned: exact, and the priors on the last layer must be Normal. A learned scale
    maximises the evidence of each member and output, and is then enlarged by the root of (N - g) / (N - G): of N
    rows the weights of the last layer take g, those of the whole network G (`_modes.py`). Classes, counts and other
    noise: Laplace's approximation on the last layer, for any priors, with the full Gauss-Newton matrix up to 2000
    parameters and Kronecker factors above.

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> likelihoods = [cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, (4,)), scale=0.1)]
    >>> method = cbdl.LastLayer(epochs=2)
    >>> cbdl.CBDL([cbdl.priors.Normal(0, 1)], likelihoods, method, verbose=False).fit(X, X[:, 0])
    CBDL(1 prior x 1 likelihood, LastLayer, trained on 20 rows)
    """

    prior: Prior = STANDARD
    """The prior under which the shared network is the mode."""
    layer: str | None = None
    """The name of the last layer, an nn.Linear; None: the module that owns the last parameter."""

    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> LastLayerPosterior | LaplacePosterior:
        """The shared network, then the posteriors of all members on its last layer."""
        head = Head.of(cohort, self.layer)
        shared = self._shared(cohort, data, run, head)
        theta = shared.theta
        with torch.no_grad():
            phi, y = features(cohort, theta, shared.buffers, head, data)
            own = head.data(data, phi, y)
            kept = {n: b.expand(cohort.size, *b.shape[1:]).clone() for n, b in shared.buffers.items()}
            if conjugate(cohort, head):
                return _exact(cohort, own, shared, kept, head)
        return self._laplace(cohort, own, theta, kept, head, run)

    def from_state(
        self, cohort: Cohort, state: Mapping[str, Tensor]
    ) -> LastLayerPosterior | LaplacePosterior:
        """The posterior that `state()` of another one describes."""
        head = Head.of(cohort, self.layer)
        if "mode" in state:
            return LaplacePosterior.from_state(cohort, state, head.part(cohort), linearised=False)
        mean, basis, scale = state["mean"], state["basis"], state["scale"]
        return LastLayerPosterior(mean, basis, scale, head, state["evidence"], **common(cohort, state))

    def _shared(self, cohort: Cohort, data: TrainingData, run: Run, head: Head) -> Shared:
        """The shared network, trained unless all of it is the last layer."""
        s = cohort.members[0].s
        member = Member(-1, s, mix(run.seed, "shared", s))
        start = cohort.layout.flatten(dict(cohort.forward.network.named_parameters())).unsqueeze(0)
        buffers = {n: b[:1].clone() for n, b in cohort.initial_buffers.items()}
        if head.stop - head.start == cohort.layout.size:
            return Shared(start[0], buffers, None, torch.ones_like(cohort.initial_noise[0]))
        alone = replace(
            cohort,
            members=(member,),
            prior=compile_priors([self.prior], cohort.layout, device=start.device, dtype=start.dtype),
            forward=replace(cohort.forward, seeds=(member.seed,)),
            initial=start,
            initial_noise=cohort.initial_noise[:1].clone(),
            initial_buffers=buffers,
        )
        trainee = ModeObjective(alone, data, start.unsqueeze(1))
        record = train(
            trainee, data, self.plan_for(cohort.layout), run, {**alone.fingerprint(), "method": repr(self)}
        )
        growth, where = trainee.determined[0], (trainee.theta[:, 0], trainee.noise, trainee.buffers)
        if growth.numel():
            with torch.no_grad():
                whole, last = (
                    determined_weights(alone, *where, data, part) for part in (None, head.part(alone))
                )
            growth = ((data.size - last) / (data.size - whole)).sqrt()[0].clamp_min(1.0)
        return Shared(trainee.theta[0, 0].clone(), trainee.buffers, _for_all(record, cohort.size), growth)

    def _laplace(
        self, cohort: Cohort, own: Data, theta: Tensor, buffers: Buffers, head: Head, run: Run
    ) -> LaplacePosterior:
        """Laplace's approximation of the last layer alone, which has the features, x of `own`, as its inputs."""
        small = head.cohort(cohort, theta, own.x)
        point = run.checkpoint
        if point is not None:
            path = point.path.with_name(f"{point.path.name}.head")
            point = Checkpoint(path, point.every_seconds, point.every_steps)
        full = head.stop - head.start <= 2000
        method = Laplace(
            self.epochs,
            self.batch_size,
            self.lr,
            hessian="full" if full else "kronecker",
            part="all",
            newton=20,
            linearised=False,  # the last layer is linear already
            schedule=self.schedule,
            clip=self.clip,
            patience=self.patience,
        )
        posterior = method.fit(small, own, replace(run, checkpoint=point))
        mode = theta.expand(cohort.size, -1).clone()
        mode[:, head.start : head.stop] = posterior.mode
        return replace(posterior, mode=mode, buffers=buffers, part=head.part(cohort))


@dataclass(frozen=True)
class Shared:
    """The shared network: parameters (P,), buffers (1, ...), how its training went."""

    theta: Tensor
    buffers: Buffers
    record: Record | None
    growth: Tensor
    """What each learned noise scale (Q,) is enlarged by, because the features saw the same rows."""


def _for_all(record: Record, members: int) -> Record:
    """The shared network's record as that of every member."""
    failures = {i: message for i in range(members) for message in record.failures.values()}
    loss, score = record.loss.expand(-1, members).clone(), record.score.expand(-1, members).clone()
    return Record(loss, score, failures, record.stopped.expand(members).clone())


# ---------------------------------------------------------------------------------------- the exact posterior


@dataclass(frozen=True)
class LastLayerPosterior(Posterior):
    """mean (members, P); the last layer's row o is mean + basis diag(scale_o) eps with eps standard Normal.

    basis (members, 1 or outputs, D, D), scale (members, outputs, D); evidence (members,): the log marginal
    likelihood of the targets given the features.
    """

    mean: Tensor
    basis: Tensor
    scale: Tensor
    head: Head
    evidence: Tensor

    def sample(self, draws: int, seed: int = 0, start: int = 0) -> Tensor:
        """theta (members, draws, P) from the common base draws number start, start + 1, ... of stream `seed`."""
        _, outputs, width = self.scale.shape
        eps = common_normal(seed, draws, outputs * width, like=self.mean, start=start)
        eps = eps.view(1, draws, outputs, width).transpose(1, 2) * self.scale.unsqueeze(2)
        moved = (eps @ self.basis.mT).transpose(1, 2)
        theta = self.mean.unsqueeze(1).repeat(1, draws, 1)
        theta[..., self.head.start : self.head.stop] += self.head.flat(moved)
        return theta

    def moments(self) -> tuple[Tensor, Tensor]:
        deviation = torch.zeros_like(self.mean)
        own = (self.basis.square() @ self.scale.square().unsqueeze(-1)).squeeze(-1).sqrt()
        deviation[:, self.head.start : self.head.stop] = self.head.flat(own)
        return self.mean, deviation

    def centre(self) -> Tensor:
        return self.mean

    def covariance(self) -> Tensor:
        """Of the last layer's rows (members, outputs, D, D); different rows are independent."""
        root = self.basis * self.scale.unsqueeze(-2)
        return root @ root.mT

    def state(self) -> dict[str, Tensor]:
        return {
            "mean": self.mean,
            "basis": self.basis,
            "scale": self.scale,
            "noise": self.noise,
            "evidence": self.evidence,
            **prefixed(self.buffers, "buffer"),
        }


@dataclass(frozen=True)
class _Regression:
    """What the data say, in the coordinates in which everything is diagonal; shapes (members, outputs, D)."""

    lam: Tensor
    tau: Tensor
    """(members, outputs, 1)"""
    c: Tensor
    rest: Tensor
    """Weighted squares of y - phi loc (members, outputs)."""
    total: float

    def evidence(self, sigma: Tensor) -> Tensor:
        """log p(y | sigma) of every member and output (members, outputs)."""
        s2, t2 = sigma.square(), self.tau.square()
        bulk = t2 * self.lam + s2.unsqueeze(-1)
        fit = self.rest - (self.c.square() * t2 / bulk).sum(-1)
        det = (bulk / s2.unsqueeze(-1)).log().sum(-1)
        return -self.total * (sigma.log() + HALF_LOG_2PI) - 0.5 * (det + fit / s2)


def _exact(cohort: Cohort, data: Data, shared: Shared, buffers: Buffers, head: Head) -> LastLayerPosterior:
    """The posterior from features and targets, `data`."""
    wide, y = data.x.double(), data.y.double().reshape(data.rows, -1)
    if head.bias:
        wide = torch.cat([wide, torch.ones_like(wide[:, :1])], 1)
    weight = torch.ones_like(wide[:, :1]) if data.weights is None else data.weights.double().unsqueeze(1)
    gram, cross = wide.T @ (weight * wide), (wide.T @ (weight * y)).T
    prior = head.prior(cohort.prior)
    loc, spread = head.matrix(prior.location().double()), head.matrix(prior.spread().double())
    tau = spread.log().mean(-1, keepdim=True).exp()
    basis, lam, which = _decompose(gram, spread / tau)
    # phi^T W (y - phi loc), and the squares that are left, from the sums alone
    pull = cross - loc @ gram
    rest = (weight * y.square()).sum(0) - ((cross + pull) * loc).sum(-1)
    c = torch.empty_like(pull)
    for u in range(len(basis)):
        rows = which == u
        c[rows] = pull[rows] @ basis[u]
    regression = _Regression(lam[which], tau, c, rest.clamp_min(0), data.size)
    sigma, noise = _noise(cohort, regression, shared.growth)
    bulk = tau.square() * regression.lam + sigma.square().unsqueeze(-1)
    a = tau.square() / bulk * c
    shift = torch.empty_like(a)
    for u in range(len(basis)):
        rows = which == u
        shift[rows] = a[rows] @ basis[u].T
    mean = shared.theta.expand(cohort.size, -1).clone()
    mean[:, head.start : head.stop] = head.flat(loc + shift).to(mean.dtype)
    # one basis for all outputs of a member where they agree and its copies would be large
    once = which.shape[1] * basis[0].numel() > LARGE and bool((which == which[:, :1]).all())
    own = basis.to(mean.dtype)[which[:, :1] if once else which]
    scale = (tau * sigma.unsqueeze(-1) / bulk.sqrt()).to(mean.dtype)
    evidence = regression.evidence(sigma).sum(1)
    return LastLayerPosterior(
        mean,
        own,
        scale,
        head,
        evidence,
        seeds=cohort.seeds,
        noise=noise,
        buffers=buffers,
        record=shared.record,
    )


def _decompose(gram: Tensor, ratio: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each different row of ratios (U of them): basis diag(r) V (U, D, D), eigenvalues (U, D) of diag(r)
    gram diag(r), and which of them each (member, output) uses.
    """
    rows = ratio.flatten(0, 1)
    known, which = torch.unique(rows.mul(1e8).round(), dim=0, return_inverse=True)
    ratios = torch.empty_like(known)
    ratios[which] = rows
    lam, v = torch.linalg.eigh(gram * ratios.unsqueeze(2) * ratios.unsqueeze(1))
    return ratios.unsqueeze(2) * v, lam.clamp_min(0), which.view(ratio.shape[:2])


def _noise(cohort: Cohort, regression: _Regression, growth: Tensor) -> tuple[Tensor, Tensor]:
    """The scale of the noise (members, outputs), in standardised units, and the noise parameters."""
    likelihood, shape = cohort.likelihood, regression.rest.shape
    assert isinstance(likelihood, likelihoods.Normal)
    if not isinstance(likelihood.scale, str):
        fixed = (likelihood.scale / cohort.unit.double()).reshape(-1).expand(shape)
        return fixed, cohort.initial_noise
    floor = likelihood.floors(cohort.unit.double()).expand(shape)
    sigma = _most_evident(regression, floor) * growth.double()
    noise = (sigma - floor).clamp_min(1e-12).log().to(cohort.initial_noise.dtype)
    return sigma, noise.reshape(cohort.initial_noise.shape)


def _most_evident(regression: _Regression, floor: Tensor, nodes: int = 64) -> Tensor:
    """argmax of the evidence over sigma: the best of a grid, then a golden section around it.

    The largest sigma worth looking at is the root mean square of y - phi loc: beyond it the evidence falls.
    """
    low = floor.log()
    high = 0.5 * (regression.rest / regression.total).clamp_min(floor.square()).log() + 0.1
    step = (high - low) / (nodes - 1)
    seen = torch.stack([regression.evidence((low + i * step).exp()) for i in range(nodes)])
    best = low + seen.argmax(0) * step
    a, b = torch.maximum(best - step, low), torch.minimum(best + step, high)
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(60):
        left, right = b - golden * (b - a), a + golden * (b - a)
        down = regression.evidence(left.exp()) > regression.evidence(right.exp())
        a, b = torch.where(down, a, left), torch.where(down, right, b)
    return (0.5 * (a + b)).exp()
