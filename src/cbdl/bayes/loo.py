"""Leave-one-out predictions without training again: draws of the posterior, weighted (Vehtari, Gelman and Gabry 2017).

A draw that explains row i well owes that partly to having seen it. Weights proportional to 1 / p(y_i | draw) undo this;
the largest of them are smoothed by a generalised Pareto distribution fitted to their tail, whose shape k-hat tells
whether they can be trusted (below 0.7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ._random import mix
from .learned import Learned, Part

TRUSTED = 0.7
"""Above this k-hat the weights of a row say little."""


@dataclass(frozen=True)
class Weighted:
    """Draws of m members, weighted for each of n rows so that they forget it.

    score:   (n, m) log predictive densities of the outcomes, in the user's units; members in the model's order
    weights: (n, m, draws) of the draws of a prediction, summing to 1
    khat:    (n, m)
    """

    score: Tensor
    weights: Tensor
    khat: Tensor


def leave_one_out(learned: Learned, x: Tensor, y: Tensor, counts: Tensor, draws: int) -> Weighted:
    """Training rows (n, ...), each left out in turn; `counts` (n,) are their weights in the training."""
    members = len(learned.members)
    score = torch.empty(len(x), members, dtype=torch.float64)
    weights, khat = score.new_empty(len(x), members, draws), torch.empty_like(score)
    for s, part in learned.parts.items():
        density = log_densities(learned, s, x, y, draws)
        # of a row that counts for less than one only that share was seen
        logs, shape = smoothed(-density * counts.clamp_max(1).view(-1, 1, 1))
        places = learned.places(s)
        score[:, places] = torch.logsumexp(logs + density, -1) - unit(part)
        weights[:, places], khat[:, places] = logs.exp(), shape
    return Weighted(score, weights, khat)


def scores(learned: Learned, x: Tensor, y: Tensor, draws: int) -> Tensor:
    """(n, m): log predictive densities of rows that were not seen, in the user's units."""
    score = torch.empty(len(x), len(learned.members), dtype=torch.float64)
    for s, part in learned.parts.items():
        density = log_densities(learned, s, x, y, draws)
        score[:, learned.places(s)] = torch.logsumexp(density, -1) - math.log(draws) - unit(part)
    return score


def unit(part: Part) -> float:
    """What is subtracted from log densities of standardised targets to make them those of the user's."""
    real = part.cohort.likelihood.space == "real"
    return float(part.cohort.unit.double().log().sum()) if real else 0.0


def log_densities(learned: Learned, s: int, x: Tensor, y: Tensor, draws: int) -> Tensor:
    """(n, members, draws): log p(y | x, draw) under the draws of a prediction, in standardised units and float64."""
    cohort, posterior = learned.parts[s].cohort, learned.parts[s].posterior
    stream = mix(learned.seed, "predict", s)
    theta, noise = posterior.sample(draws, stream), posterior.noises(draws, stream)
    rows = cohort.forward.rows(theta.shape[0] * draws, x)
    parts = [
        cohort.likelihood.log_density(posterior.outputs(cohort, theta, some), own, noise, cohort.unit)
        for some, own in zip(torch.split(x, rows), torch.split(y, rows), strict=True)
    ]
    return torch.cat(parts, 2).double().cpu().permute(2, 0, 1)


# --- Pareto smoothed importance sampling --------------------------------------------------------------------


def smoothed(logs: Tensor) -> tuple[Tensor, Tensor]:
    """Log weights (..., S) from raw log ratios, normalised over the last axis, and k-hat (...)."""
    size = logs.shape[-1]
    logs = logs - logs.amax(-1, keepdim=True)
    tail = math.ceil(min(0.2 * size, 3 * math.sqrt(size)))
    khat = logs.new_full(logs.shape[:-1], math.inf)
    if tail >= 5:
        ordered, place = logs.sort(-1)
        cut = ordered[..., -tail - 1 : -tail].clamp_min(math.log(torch.finfo(logs.dtype).tiny))
        excess = (ordered[..., -tail:].exp() - cut.exp()).clamp_min(1e-300)
        shape, scale = pareto(excess)
        p = (torch.arange(tail, dtype=logs.dtype, device=logs.device) + 0.5) / tail
        quantiles = _pareto_quantile(p, shape.unsqueeze(-1), scale.unsqueeze(-1))
        smooth = (quantiles + cut.exp()).log().clamp_max(0.0)
        # a tail that is flat, or whose fit is no number, stays as it is
        fits = torch.isfinite(smooth).all(-1, keepdim=True) & (ordered[..., -1:] > cut)
        ordered = torch.cat([ordered[..., :-tail], torch.where(fits, smooth, ordered[..., -tail:])], -1)
        logs = torch.empty_like(ordered).scatter_(-1, place, ordered)
        khat = torch.where(
            fits[..., 0], shape, torch.where(ordered[..., -1] > cut[..., 0], math.inf, -math.inf)
        )
    return logs - logs.logsumexp(-1, keepdim=True), khat


def pareto(excess: Tensor) -> tuple[Tensor, Tensor]:
    """Shape and scale (...) of generalised Pareto distributions for excesses (..., n) in ascending order.

    Zhang and Stephens' (2009) estimate, the shape drawn towards 1/2 as by ten more observations.
    """
    n = excess.shape[-1]
    count = 30 + int(math.sqrt(n))
    quarter = excess[..., int(n / 4 + 0.5) - 1].unsqueeze(-1)
    i = torch.arange(1, count + 1, dtype=excess.dtype, device=excess.device)
    b = (1 - (count / (i - 0.5)).sqrt()) / (3 * quarter) + 1 / excess[..., -1:]
    k = torch.log1p(-b.unsqueeze(-1) * excess.unsqueeze(-2)).mean(-1)
    profile = n * (torch.log(-b / k) - k - 1)
    weight = 1 / (profile.unsqueeze(-2) - profile.unsqueeze(-1)).exp().sum(-1)
    weight = torch.where(weight >= 10 * torch.finfo(excess.dtype).eps, weight, 0.0)
    mean = (b * weight / weight.sum(-1, keepdim=True)).sum(-1, keepdim=True)
    shape = torch.log1p(-mean * excess).mean(-1)
    scale = -shape / mean[..., 0]
    return (shape * n + 5) / (n + 10), scale


def _pareto_quantile(p: Tensor, shape: Tensor, scale: Tensor) -> Tensor:
    flat = -torch.log1p(-p)
    return torch.where(shape.abs() < 1e-12, scale * flat, scale * torch.expm1(shape * flat) / shape)
