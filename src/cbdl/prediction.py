"""Step 4 of Algorithm 1: the predictive distribution of every member, in bounded memory, as a credal set.

Monte Carlo noise must not pass for ignorance: upper minus lower entropy takes a maximum and a minimum, so noise
in the members always widens it. Members share their base draws (`bayes.draws`), and every prediction carries
the epistemic uncertainty that identical members with independent draws would show: each member is replaced by as
many bootstrap replicates of itself as there are members, and the epistemic uncertainty of these is averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from cbdl.bayes._random import generator, mix
from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.counts import count_cap, count_mixtures
from cbdl.bayes.data import Standard
from cbdl.bayes.methods.protocol import Posterior
from cbdl.credal import CategoricalCredalSet, DiagonalNormalCredalSet, MixtureCredalSet, NormalCredalSet
from cbdl.credal.base import CredalSet

Form = Literal["mixture", "normal"]
MAX_MEMORY = 1 << 30
"""Bytes of working memory that a prediction may use beyond its answer."""
DRAWS = 20
"""Draws of the parameters behind a prediction, unless the user asks for another number."""


@dataclass(frozen=True)
class Learned:
    """What Step 3 left: the cohort and the posterior of each likelihood, and the units of the data."""

    parts: tuple[tuple[Cohort, Posterior], ...]
    inputs: Standard
    targets: Standard
    row: tuple[int, ...]
    """The shape of one input."""
    seed: int
    size: float
    """N of the objective: training rows, or the sum of their weights."""
    integers: bool = False
    """Whether inputs are integers (tokens)."""

    @property
    def space(self) -> str:
        return self.parts[0][0].likelihood.space

    @property
    def members(self) -> tuple[Member, ...]:
        """All members in the order (k, s) -> k * S + s."""
        return tuple(sorted((m for c, _ in self.parts for m in c.members), key=lambda m: (m.k, m.s)))

    @property
    def noises(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """For real outcomes, the noise of every member as a mixture of Normals."""
        found = {m: c.likelihood.normals() for c, _ in self.parts for m in c.members}  # type: ignore[attr-defined]
        return tuple(found[m] for m in self.members)

    def places(self, s: int) -> list[int]:
        """Where the members of part `s` stand in `members`."""
        order = {member: i for i, member in enumerate(self.members)}
        return [order[member] for member in self.parts[s][0].members]


@dataclass(frozen=True)
class Predictive:
    """The predictive distributions of m members for a batch of inputs.

    numbers: "probs" (rows, m, J), or "loc" and "scale" (rows, m, draws, *event), with "weight" (rows, m, draws)
    copies:  the same for bootstrap replicates: "probs" (rows, m, R, J) or "weight" (R, draws)
    draws:   (rows,) draws behind each row
    """

    numbers: dict[str, Tensor]
    copies: Tensor
    draws: Tensor
    noises: tuple[tuple[Tensor, Tensor], ...] = ()
    """For real outcomes: each member's noise as Normals, weights and scales in units of its standard deviation."""

    def credal_set(self, form: Form, out: Callable[[Tensor], object]) -> CredalSet:
        """The convex hull of the members; `out` turns tensors into the user's kind of array."""
        n = self.numbers
        if "probs" in n:
            return CategoricalCredalSet(out(n["probs"]))  # type: ignore[arg-type]
        event = n["loc"].shape[3:]
        if form == "mixture" and not event:
            return MixtureCredalSet(*(out(t) for t in self._normals()))  # type: ignore[arg-type]
        loc, scale = moments(n["loc"], n["scale"], n["weight"])
        if not event:
            return NormalCredalSet(out(loc), out(scale))  # type: ignore[arg-type]
        return DiagonalNormalCredalSet(out(loc.flatten(2)), out(scale.flatten(2)))  # type: ignore[arg-type]

    def _normals(self) -> tuple[Tensor, Tensor, Tensor]:
        """loc, scale, weight (rows, m, components): every draw's noise as the Normals that make it up."""
        loc, scale, weight = (self.numbers[name] for name in ("loc", "scale", "weight"))
        most = max(len(w) for w, _ in self.noises)
        if most == 1:
            return loc, scale, weight
        w, s = torch.zeros(2, len(self.noises), 1, most, dtype=torch.float64)
        s += 1
        for i, (weights, scales) in enumerate(self.noises):
            w[i, 0, : len(weights)], s[i, 0, : len(scales)] = weights, scales
        wide = loc.unsqueeze(-1).expand(*loc.shape, most)
        return wide.flatten(2), (scale.unsqueeze(-1) * s).flatten(2), (weight.unsqueeze(-1) * w).flatten(2)

    def at(self, rows: Tensor) -> Predictive:
        """The rows where `rows` (bool) is true."""
        copies = self.copies[rows] if "probs" in self.numbers else self.copies
        numbers = {n: t[rows] for n, t in self.numbers.items()}
        return Predictive(numbers, copies, self.draws[rows], self.noises)

    def noise(self, form: Form) -> Tensor:
        """(rows,): the epistemic uncertainty, in nats, of as many replicates of one member as there are members."""
        m = next(iter(self.numbers.values())).shape[1]
        if m == 1:
            return torch.zeros(self.draws.shape[0], dtype=torch.float64)
        found = torch.stack(
            [torch.as_tensor(self._replicas(j, form).uncertainty().epistemic) for j in range(m)]
        )
        # Weights of a Bayesian bootstrap vary (n - 1) / (n + 1) times as much as fresh draws would.
        pairs = (self.draws / 2).clamp_min(1.5)
        return found.mean(0) * ((pairs + 1) / (pairs - 1)).sqrt()

    def _replicas(self, j: int, form: Form) -> CredalSet:
        n = self.numbers
        if "probs" in n:
            return CategoricalCredalSet(self.copies[:, j])
        replicas = self.copies.shape[0]
        wide = {k: n[k][:, j : j + 1].expand(-1, replicas, *n[k].shape[2:]) for k in ("loc", "scale")}
        weight = n["weight"][:, j : j + 1] * self.copies
        copied = {**wide, "weight": weight / weight.sum(-1, keepdim=True)}
        noises = (self.noises[j],) * replicas
        return Predictive(copied, self.copies, self.draws, noises).credal_set(form, lambda t: t)


def moments(loc: Tensor, scale: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (rows, m, *event) of the mixture over draws."""
    w = weight.reshape(weight.shape + (1,) * (loc.ndim - 3))
    mean = (w * loc).sum(2)
    variance = (w * (scale.square() + (loc - mean.unsqueeze(2)).square())).sum(2)
    return mean, variance.sqrt()


def predictive_auto(
    learned: Learned, x: Tensor, form: Form, tolerance: float, most: int, max_memory: int = MAX_MEMORY
) -> Predictive:
    """Draws for each row, twice as many every time, until its noise is below `tolerance` or they are `most`."""
    if not tolerance > 0:
        raise ValueError(f"tolerance is {tolerance}; it must be positive (nats)")
    rows, draws = torch.arange(x.shape[0], device=x.device), min(16, most)
    parts: list[tuple[Tensor, Predictive]] = []
    while True:
        found = predictive(learned, x[rows], draws, max_memory)
        if draws >= most:
            return _joined([*parts, (rows, found)], x.shape[0])
        done = (found.noise(form) < tolerance).to(rows.device)
        parts.append((rows[done], found.at(done.cpu())))
        rows, draws = rows[~done], min(2 * draws, most)
        if not len(rows):
            return _joined(parts, x.shape[0])


def _joined(parts: list[tuple[Tensor, Predictive]], rows: int) -> Predictive:
    """One prediction from rows that were predicted with different numbers of draws; missing draws have weight 0."""
    last = parts[-1][1]
    longest = int(max(part.draws.max() if len(part.draws) else 0 for _, part in parts))
    made: dict[str, Tensor] = {}
    draws = last.draws.new_zeros(rows)
    copies = last.copies.new_zeros(rows, *last.copies.shape[1:])
    for where, part in parts:
        at = where.cpu()
        draws[at] = part.draws
        for name, value in part.numbers.items():
            wide = value if name == "probs" else _padded(value, longest, 1.0 if name == "scale" else 0.0)
            if name not in made:
                made[name] = wide.new_zeros(rows, *wide.shape[1:])
            made[name][at] = wide
        if "probs" in part.numbers:
            copies[at] = part.copies
    if "probs" not in made:
        copies = max((part.copies for _, part in parts), key=lambda c: c.shape[1])
    return Predictive(made, copies, draws, last.noises)


def _padded(x: Tensor, length: int, value: float) -> Tensor:
    """`x` (rows, m, draws, ...) with draws filled up to `length`."""
    missing = x.new_full((*x.shape[:2], length - x.shape[2], *x.shape[3:]), value)
    return torch.cat([x, missing], 2)


# --- evaluation in blocks -----------------------------------------------------------------------------------


def predictive(learned: Learned, x: Tensor, draws: int, max_memory: int = MAX_MEMORY) -> Predictive:
    """The predictive distributions for standardised inputs `x` from draws 0, ..., draws - 1 of the model's stream."""
    m = len(learned.members)
    weights = torch.cat([torch.ones(1, draws), _bootstrap(learned.seed, m, draws)])
    weights = weights.double() / weights.double().sum(1, keepdim=True)
    counted = torch.full((x.shape[0],), draws, dtype=torch.float64)
    if learned.space == "real":
        numbers = _collect(learned, x, draws, max_memory)
        even = weights[0].expand(x.shape[0], m, draws)
        return Predictive({**numbers, "weight": even}, weights[1:], counted, learned.noises)
    probs = _average(learned, x, weights, max_memory)
    return Predictive({"probs": probs[:, :, 0]}, probs[:, :, 1:], counted)


def blocks(
    learned: Learned, x: Tensor, draws: int, max_memory: int
) -> Iterator[tuple[list[int], slice, slice, dict[str, Tensor]]]:
    """(members, draws, rows, what the likelihood says of them): all of them, a bounded block at a time."""
    unit = learned.targets
    for s, members, some, rows, out in outputs(learned, x, draws, max_memory):
        cohort, posterior = learned.parts[s]
        yield members, some, rows, cohort.likelihood.describe(out, posterior.noise, unit.loc, unit.scale)


def outputs(
    learned: Learned, x: Tensor, draws: int, max_memory: int
) -> Iterator[tuple[int, list[int], slice, slice, Tensor]]:
    """(part, members, draws, rows, outputs of the networks (members, draws, rows, ...)) block by block."""
    for s, (cohort, posterior) in enumerate(learned.parts):
        size = x.element_size() if x.is_floating_point() else 4
        per_draw = cohort.size * size * cohort.layout.size
        per_row = cohort.size * size * activations(cohort.forward.network, x[:1])
        count = max(1, min(draws, max_memory // 4 // per_draw))
        rows = max(1, max_memory // 2 // (per_row * count))
        stream = mix(learned.seed, "predict", cohort.members[0].s)
        for a in range(0, draws, count):
            some = min(count, draws - a)
            theta = posterior.sample(some, stream, a)
            for b in range(0, x.shape[0], rows):
                out = cohort.forward(theta, x[b : b + rows], posterior.buffers)
                yield s, learned.places(s), slice(a, a + some), slice(b, b + rows), out


def activations(network: nn.Module, x: Tensor) -> int:
    """Numbers that all layers of `network` put out for one row: a bound on what an evaluation holds."""
    total = x.numel()

    def count(module: nn.Module, inputs: object, output: object) -> None:
        nonlocal total
        outputs = output if isinstance(output, tuple | list) else (output,)
        total += sum(o.numel() for o in outputs if isinstance(o, Tensor))

    leaves = [module for module in network.modules() if not list(module.children())]
    hooks = [module.register_forward_hook(count) for module in leaves]
    try:
        network.eval()
        with torch.no_grad():
            network(x)
    finally:
        for hook in hooks:
            hook.remove()
    return total


def _average(learned: Learned, x: Tensor, weights: Tensor, max_memory: int) -> Tensor:
    """(rows, m, W, J): class probabilities averaged over draws with each of the W weightings (never logits)."""
    cap = None
    if learned.space == "counts":
        rate = max(float(told["rate"].max()) for *_, told in blocks(learned, x, weights.shape[1], max_memory))
        cap = count_cap(rate, x.shape[0] * len(learned.members) * weights.shape[0], max_memory)
    total: Tensor | None = None
    for members, draws, rows, told in blocks(learned, x, weights.shape[1], max_memory):
        if cap is None:
            part = torch.einsum("wd,mdrj->rmwj", weights[:, draws], told["probs"].double().cpu())
        else:
            part = count_mixtures(told["rate"], weights[:, draws], cap, max_memory)
        if total is None:
            total = part.new_zeros(x.shape[0], len(learned.members), *part.shape[2:])
        total[rows, members] += part
    assert total is not None
    return total


def _collect(learned: Learned, x: Tensor, draws: int, max_memory: int) -> dict[str, Tensor]:
    """ "loc" and "scale" (rows, m, draws, *event)."""
    made: dict[str, Tensor] = {}
    for members, some, rows, told in blocks(learned, x, draws, max_memory):
        for name in ("loc", "scale"):
            part = told[name].double().cpu().movedim(2, 0)
            if name not in made:
                made[name] = part.new_zeros(x.shape[0], len(learned.members), draws, *part.shape[3:])
            for i, member in enumerate(members):
                made[name][rows, member, some] = part[:, i]
    return made


def _bootstrap(seed: int, replicas: int, draws: int) -> Tensor:
    """(replicas, draws): weights of a Bayesian bootstrap, equal within an antithetic pair."""
    pairs = [
        torch.empty(replicas).exponential_(generator=generator("cpu", seed, "bootstrap", i))
        for i in range((draws + 1) // 2)
    ]
    return torch.stack(pairs, 1).repeat_interleave(2, 1)[:, :draws]


def simulate(learned: Learned, x: Tensor, n: int, seed: int, max_memory: int = MAX_MEMORY) -> Tensor:
    """(rows, m, n, *event): for each input and member n times a parameter from the posterior, then an outcome.

    Paper: appendix "post_pred_app". Parameters are those of `predict`; the outcomes' own noise comes from `seed`.
    """
    if int(n) != n or n < 1:
        raise ValueError(f"n is {n}; draw at least one outcome")
    made: Tensor | None = None
    for part, members, draws, rows, out in outputs(learned, x, n, max_memory):
        cohort, posterior = learned.parts[part]
        source = generator(out.device, learned.seed, "outcome", seed, part, draws.start, rows.start)
        drawn = cohort.likelihood.draw(
            out, posterior.noise, learned.targets.loc, learned.targets.scale, source
        )
        drawn = drawn.cpu().movedim(2, 0)
        if made is None:
            made = drawn.new_zeros(x.shape[0], len(learned.members), n, *drawn.shape[3:])
        for i, member in enumerate(members):
            made[rows, member, draws] = drawn[:, i]
    assert made is not None
    return made
