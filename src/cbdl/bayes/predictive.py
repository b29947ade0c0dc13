"""The predictive distributions of all members, draw by draw or averaged, in bounded memory (Step 4 of Algorithm 1).

Members, draws and rows are evaluated in blocks: all members of a likelihood at once, as many draws and rows as the
memory bound allows. How the work is cut into blocks changes nothing but rounding.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cbdl.ground import memory

from . import passes
from ._random import generator, mix
from .cohort import Cohort
from .counts import count_cap, count_mixtures
from .learned import Learned
from .likelihoods.rules import CLASSES

NEAR, LEAST = 1 << 24, 128
"""Bytes of activations with which stacks of small layers are fastest, and rows of theirs at least: what a layer leaves
is then still near when the next one reads it. 200 draws of four members with four layers took 93 us a row for 253."""
ANSWER = 16
"""Numbers that an output takes with all that is said of it, at most."""
_COUNTING = threading.Lock()
"""One thread at a time counts what a network puts out: its hooks belong to all threads."""


class Averages(NamedTuple):
    """What all draws of every member say together."""

    probs: Tensor
    """(rows, m, W, J): class probabilities averaged with each of the weightings."""
    noise: Tensor
    """(rows, m): the entropies of the draws, averaged with the first."""
    spread: Tensor
    """(rows, m): the variance of the draws' probabilities with the first, summed over classes; nan: not asked for."""


def averages(learned: Learned, x: Tensor, weights: Tensor, max_memory: int | None = None) -> Averages:
    """Class probabilities averaged over draws with weightings (W, draws), of which the first is that of all draws.

    Probabilities are averaged, never logits.
    """
    draws = weights.shape[1]
    if len(weights) == 1 and learned.space == "classes":
        whole = _averages_by_loops(learned, x, weights[0], max_memory)
        if whole is not None:
            return whole
    cap = _largest_count(learned, x, weights, max_memory) if learned.space == "counts" else None
    total: Tensor | None = None
    noise = torch.zeros(x.shape[0], len(learned.members), dtype=torch.float64)
    square = torch.zeros_like(noise) if cap is None else torch.full_like(noise, torch.nan)
    for members, some, rows, numbers in descriptions(learned, x, draws, max_memory):
        noise[rows, members] += torch.einsum("d,mdr->rm", weights[0, some], numbers["entropy"].double().cpu())
        if cap is None:
            part = _weighted(weights[:, some], numbers["probs"]).double().cpu()
            norms = torch.linalg.vecdot(numbers["probs"], numbers["probs"]).double().cpu()
            square[rows, members] += torch.einsum("d,mdr->rm", weights[0, some], norms)
        else:
            part = count_mixtures(numbers["rate"], weights[:, some], cap, max_memory)
        if total is None:
            total = part.new_zeros(x.shape[0], len(learned.members), *part.shape[2:])
        total[rows, members] += part
    assert total is not None
    return Averages(total, noise, _spread(total[:, :, 0], square))


def _averages_by_loops(
    learned: Learned, x: Tensor, weights: Tensor, max_memory: int | None
) -> Averages | None:
    """The same with one weighting (draws,), where compiled loops know all the networks and what their outputs are: no
    output is ever kept."""
    cohorts = {}
    for s, part in learned.parts.items():
        rule = part.cohort.likelihood.rule(learned.targets.scale)
        if rule is None or rule.kind != CLASSES or not part.posterior.plain:
            return None
        cohorts[s] = part.cohort.answering(x, x.shape[0] * len(weights))
        if cohorts[s].forward.way != "passes":
            return None
    limit, parts = memory.limit(max_memory) // 4, []
    for s, cohort in cohorts.items():
        stack = cohort.forward.stack
        assert stack is not None
        rows = stack.inputs(x)
        count = max(1, min(len(weights), limit // (cohort.size * x.element_size() * cohort.layout.size)))
        sums = [
            passes.averages(stack.steps, cohort.layout, parameters(learned, s, len(some), a)[0], rows, some)
            for a, some in zip(range(0, len(weights), count), torch.split(weights, count), strict=True)
        ]
        parts.append((learned.places(s), *(sum(own[1:], own[0]) for own in zip(*sums, strict=True))))
    order = torch.tensor([i for places, *_ in parts for i in places]).argsort()
    probs, noise, square = (torch.cat(own)[order] for own in list(zip(*parts, strict=True))[1:])
    probs = probs.permute(2, 0, 1)
    return Averages(probs.unsqueeze(2), noise.T, _spread(probs, square.T))


def _spread(mean: Tensor, square: Tensor) -> Tensor:
    """(rows, m): the variance of probabilities with this mean (rows, m, J) and mean square (rows, m)."""
    return (square - mean.square().sum(-1)).clamp_min(0)


def _weighted(weights: Tensor, probs: Tensor) -> Tensor:
    """(rows, m, W, J): probabilities (m, draws, rows, J) averaged with each of the weightings (W, draws)."""
    if len(weights) > 1:  # small differences of averages make a floor
        return torch.einsum("wd,mdrj->rmwj", weights.to(probs.device), probs.double())
    # one average needs no more digits than what it is of; rows or classes, whichever lie side by side, stay so
    members, draws, rows, classes = probs.shape
    own = weights[0].to(probs)
    if probs.stride(-1) == 1:
        mean = (own @ probs.reshape(members, draws, -1)).view(members, rows, classes)
    else:
        mean = (own @ probs.mT.reshape(members, draws, -1)).view(members, classes, rows).mT
    return mean.movedim(1, 0).unsqueeze(2)


def _largest_count(learned: Learned, x: Tensor, weights: Tensor, max_memory: int | None) -> int:
    """How many counts get a class of their own."""
    draws = weights.shape[1]
    rate = max(float(numbers["rate"].max()) for *_, numbers in descriptions(learned, x, draws, max_memory))
    return count_cap(rate, x.shape[0] * len(learned.members) * weights.shape[0], max_memory)


def normals(
    learned: Learned, x: Tensor, draws: int, max_memory: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and standard deviation (rows, m, draws, *event) and entropy (rows, m, draws) of the outcome under every
    draw."""
    places: dict[str, Tensor] = {}
    for members, some, rows, numbers in descriptions(learned, x, draws, max_memory):
        for name in ("loc", "scale", "entropy"):
            part = numbers[name].double().cpu().movedim(2, 0)
            if name not in places:
                places[name] = part.new_zeros(x.shape[0], len(learned.members), draws, *part.shape[3:])
            places[name][rows.start : rows.stop, members, some] = part
    return places["loc"], places["scale"], places["entropy"]


def moments(
    learned: Learned, x: Tensor, draws: int, max_memory: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance (rows, m, *event) of the outcome under all draws together, and its entropy given the draw,
    averaged (rows, m): what `normals` says, where nobody asks for single draws.

    Blocks of draws are merged by their means and variances (Chan, Golub and LeVeque), so that nothing cancels.
    """
    mean: Tensor | None = None
    variance: Tensor
    noise = torch.zeros(x.shape[0], len(learned.members), dtype=torch.float64)
    for members, some, rows, numbers in descriptions(learned, x, draws, max_memory):
        count = some.stop - some.start
        noise[rows, members] += numbers["entropy"].double().cpu().sum(1).T / draws
        spread, centre = torch.var_mean(numbers["loc"], 1, correction=0)
        spread = spread + numbers["scale"].square().mean(1)
        own, part = (t.double().cpu().movedim(1, 0) for t in (centre, spread))
        if mean is None:
            mean = own.new_zeros(x.shape[0], len(learned.members), *own.shape[2:])
            variance = torch.zeros_like(mean)
        share = count / some.stop  # of the draws so far
        block = (slice(rows.start, rows.stop), members)
        away = own - mean[block]
        variance[block] += share * (part - variance[block] + (1 - share) * away.square())
        mean[block] += share * away
    assert mean is not None
    return mean, variance, noise


def simulate(learned: Learned, x: Tensor, n: int, seed: int, max_memory: int | None = None) -> Tensor:
    """(rows, m, n, *event): for each input and member n times a parameter from the posterior, then an outcome.

    Paper: appendix "post_pred_app". Parameters are those of `predict`; the outcomes' own noise comes from `seed`.
    """
    if int(n) != n or n < 1:
        raise ValueError(f"n is {n}; draw at least one outcome")
    outcomes: Tensor | None = None
    unit = learned.targets
    for s, members, draws, rows, out, noise in outputs(learned, x, n, max_memory):
        part = learned.parts[s]
        source = generator(out.device, learned.seed, "outcome", seed, s, draws.start, rows.start)
        drawn = part.cohort.likelihood.draw(out, noise, unit.loc, unit.scale, source)
        drawn = drawn.cpu().movedim(2, 0)
        if outcomes is None:
            outcomes = drawn.new_zeros(x.shape[0], len(learned.members), n, *drawn.shape[3:])
        outcomes[rows.start : rows.stop, members, draws] = drawn
    assert outcomes is not None
    return outcomes


# --- blocks -------------------------------------------------------------------------------------------------


def descriptions(
    learned: Learned, x: Tensor, draws: int, max_memory: int | None
) -> Iterator[tuple[list[int], slice, slice, dict[str, Tensor]]]:
    """(members, draws, rows, what the likelihood says of them with its entropy): all, a bounded block at a time."""
    unit = learned.targets
    for s, members, some, rows, out, noise in outputs(learned, x, draws, max_memory):
        likelihood = learned.parts[s].cohort.likelihood
        if learned.space == "real":  # units may be finer than networks, and far from zero
            out, noise = out.double(), noise.double()
        numbers = likelihood.describe(out, noise, unit.loc, unit.scale)
        yield members, some, rows, {**numbers, "entropy": likelihood.entropy(numbers)}


def outputs(
    learned: Learned, x: Tensor, draws: int, max_memory: int | None
) -> Iterator[tuple[int, list[int], slice, slice, Tensor, Tensor]]:
    """(likelihood, members, draws, rows, outputs of the networks (members, draws, rows, ...), noise parameters
    (members, draws, Q)) block by block."""
    limit = memory.limit(max_memory)
    for s, part in learned.parts.items():
        cohort, posterior = part.cohort.answering(x, x.shape[0] * draws), part.posterior
        size = x.element_size() if x.is_floating_point() else 4
        per_draw = cohort.size * size * cohort.layout.size
        count = max(1, min(draws, limit // 4 // per_draw))
        rows = _rows(cohort, x, count, limit)
        for a in range(0, draws, count):
            some = min(count, draws - a)
            theta, noise = parameters(learned, s, some, a)
            for b in range(0, x.shape[0], rows):
                out = posterior.outputs(cohort, theta, x[b : b + rows])
                yield s, learned.places(s), slice(a, a + some), slice(b, b + rows), out, noise


def _rows(cohort: Cohort, x: Tensor, count: int, limit: int) -> int:
    """How many rows so many draws are asked about at a time."""
    size, forward = x.element_size() if x.is_floating_point() else 4, cohort.forward
    layers = activations(forward.network, x[:1])
    if forward.way == "passes":  # which hold nothing but what comes out, and take LEAST rows at a time
        outs = next(e.shape[0] for e in reversed(cohort.layout.entries) if len(e.shape) > 1)
        layers = min(layers, ANSWER * (1 + outs))
    per_row = cohort.size * size * layers * count
    rows = max(1, limit // 2 // per_row)
    if forward.stack is None:
        return rows
    near = max(LEAST, NEAR // per_row)
    return min(rows, near // LEAST * LEAST if forward.way == "passes" else near)


def parameters(learned: Learned, s: int, draws: int, start: int = 0) -> tuple[Tensor, Tensor]:
    """What predictions of likelihood `s` are made with: parameters (members, draws, P) of its networks, and those of
    its noise (members, draws, Q), draws number start, start + 1, ... of the model's stream."""
    posterior, stream = learned.parts[s].posterior, mix(learned.seed, "predict", s)
    return posterior.sample(draws, stream, start), posterior.noises(draws, stream, start)


def activations(network: nn.Module, x: Tensor) -> int:
    """Numbers that all layers of `network` put out for one row: a bound on what an evaluation holds."""
    total = x.numel()

    def count(module: nn.Module, inputs: object, output: object) -> None:
        nonlocal total
        outputs = output if isinstance(output, tuple | list) else (output,)
        total += sum(o.numel() for o in outputs if isinstance(o, Tensor))

    leaves = [module for module in network.modules() if not list(module.children())]
    with _COUNTING:
        hooks = [module.register_forward_hook(count) for module in leaves]
        try:
            network.eval()
            with torch.no_grad():
                network(x)
        finally:
            for hook in hooks:
                hook.remove()
    return total
