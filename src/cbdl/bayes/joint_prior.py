"""The priors of all members on all coordinates as tensors: log density, KL from a Normal, draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from ._random import generator
from .flat import Layout
from .priors.prior import Family, PriorLike, prior_for


@dataclass(frozen=True)
class Term:
    """One family on a block of coordinates of some members."""

    family: Family
    places: Tensor | None
    """Which members (indices); None: all, in order."""
    columns: slice
    values: tuple[Tensor, ...]
    """The family's parameters, each (places, columns)."""

    def of(self, x: Tensor) -> Tensor:
        """The block of x (members, ..., P)."""
        return (x if self.places is None else x[self.places])[..., self.columns]

    def shaped(self, x: Tensor) -> list[Tensor]:
        """The parameters with the dimensions of x (members, ..., P)."""
        return [v.reshape(v.shape[:1] + (1,) * (x.ndim - 2) + v.shape[1:]) for v in self.values]

    @cached_property
    def constant(self) -> Tensor:
        """(places,): what the log density of the block has beyond the family's `slope`."""
        family, centre = self.family, self.values[self.family.parameters.index("loc")]
        assert family.slope is not None
        whole = family.log_density(centre, *self.values) - family.slope(centre, *self.values)[0]
        return whole.sum(-1)

    def log_density_and_slope(self, block: Tensor) -> tuple[Tensor, Tensor]:
        """log p of the block's coordinates (places, ...) and its gradient (places, ..., columns)."""
        values = self.shaped(block)
        if self.family.slope is not None:
            value, slope = self.family.slope(block, *values)
            return value.sum(-1) + self.constant.reshape(-1, *[1] * (block.ndim - 2)), slope
        with torch.enable_grad():
            leaf = block.detach().requires_grad_()
            total = self.family.log_density(leaf, *values).sum(-1)
            (gradient,) = torch.autograd.grad(total.sum(), leaf)
        return total.detach(), gradient


@dataclass(frozen=True)
class JointPrior:
    """K priors compiled for a layout: tensors (members, P), split into blocks of one family each."""

    members: int
    size: int
    terms: tuple[Term, ...]

    @property
    def closed(self) -> bool:
        """Whether the KL from a Normal has a closed form on every coordinate."""
        return all(term.family.kl is not None for term in self.terms)

    @property
    def normal(self) -> tuple[Tensor, Tensor] | None:
        """(loc, scale), each (members, P), if all priors are Normal; else None."""
        if len(self.terms) == 1 and self.terms[0].family.name == "normal":
            loc, scale = self.terms[0].values
            return loc, scale
        return None

    def only(self, places: Sequence[int]) -> JointPrior:
        """The priors of the members `places`."""
        terms = []
        for term in self.terms:
            own = list(range(self.members)) if term.places is None else term.places.tolist()
            place = {member: i for i, member in enumerate(own)}
            keep = [(new, place[old]) for new, old in enumerate(places) if old in place]
            if keep:
                values = tuple(v[[i for _, i in keep]] for v in term.values)
                which = (
                    None if len(keep) == len(places) else values[0].new_tensor([n for n, _ in keep]).long()
                )
                terms.append(Term(term.family, which, term.columns, values))
        return JointPrior(len(places), self.size, tuple(terms))

    def to(self, dtype: torch.dtype) -> JointPrior:
        """The same priors with their parameters as `dtype`."""
        terms = tuple(replace(t, values=tuple(v.to(dtype) for v in t.values)) for t in self.terms)
        return replace(self, terms=terms)

    def log_density(self, theta: Tensor) -> Tensor:
        """log p(theta): (members, ..., P) -> (members, ...)."""
        total = theta.new_zeros(theta.shape[:-1])
        for term in self.terms:
            block = term.of(theta)
            total = _add(total, term.family.log_density(block, *term.shaped(block)).sum(-1), term.places)
        return total

    def log_density_and_slope(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """log p(theta), (members, ..., P) -> (members, ...), and its gradient (members, ..., P)."""
        (first, *more) = self.terms
        if not more and first.places is None and first.columns == slice(0, self.size):
            return first.log_density_and_slope(theta)
        total, slope = theta.new_zeros(theta.shape[:-1]), torch.zeros_like(theta)
        for term in self.terms:
            value, own = term.log_density_and_slope(term.of(theta))
            total = _add(total, value, term.places)
            slope[slice(None) if term.places is None else term.places, ..., term.columns] = own
        return total, slope

    def kl(self, mu: Tensor, sigma: Tensor, theta: Tensor | None) -> Tensor:
        """KL(Normal(mu, sigma) || prior) (members,): closed where it is, else the mean of log q - log p over
        theta.

        mu, sigma (members, P); theta (members, draws, P) drawn from them, needed where nothing is closed.
        """
        total = mu.new_zeros(self.members)
        for term in self.terms:
            m, s = term.of(mu), term.of(sigma)
            if term.family.kl is not None:
                part = term.family.kl(m, s, *term.values).sum(-1)
            elif theta is None:
                raise ValueError(f"the KL to {term.family.name} has no closed form; pass draws")
            else:
                t = term.of(theta)
                p = term.family.log_density(t, *term.shaped(t)).sum(-1).mean(-1)
                z = (t - m.unsqueeze(1)) / s.unsqueeze(1)
                entropy = (s.log() + 0.918938533204672742).sum(-1) + 0.5 * z.square().sum(-1).mean(-1)
                part = -entropy - p
            total = _add(total, part, term.places)
        return total

    def draw(self, seeds: Sequence[int], draws: int) -> Tensor:
        """theta ~ prior (members, draws, P); member i from the stream of seeds[i]."""
        values = self.terms[0].values[0]
        theta = torch.empty(self.members, draws, self.size, device=values.device, dtype=values.dtype)
        for term in self.terms:
            places = range(self.members) if term.places is None else term.places.tolist()
            for i, at in enumerate(places):
                source = generator(values.device, seeds[at], "prior", term.columns.start)
                own = [v[i].expand(draws, -1) for v in term.values]
                theta[at, :, term.columns] = term.family.draw(source, *own)
        return theta

    def location(self) -> Tensor:
        """The centre of every prior (members, P)."""
        return self._gather("loc")

    def spread(self) -> Tensor:
        """The scale parameter of every prior (members, P)."""
        return self._gather("scale")

    def _gather(self, name: str) -> Tensor:
        values = self.terms[0].values[0]
        out = torch.empty(self.members, self.size, device=values.device, dtype=values.dtype)
        for term in self.terms:
            value = term.values[term.family.parameters.index(name)]
            if term.places is None:
                out[:, term.columns] = value
            else:
                out[term.places, term.columns] = value
        return out


def _add(total: Tensor, part: Tensor, places: Tensor | None) -> Tensor:
    return total + part if places is None else total.index_add(0, places, part)


def compile_priors(
    priors: Sequence[PriorLike], layout: Layout, *, device: torch.device, dtype: torch.dtype
) -> JointPrior:
    """The priors of the members (one each) as tensors for `layout`, neighbours of one family joined to one
    block.
    """
    chosen = [[prior_for(prior, entry.name) for entry in layout.entries] for prior in priors]
    terms: list[Term] = []
    # members whose families agree everywhere are one group
    kinds = [tuple(p.family.name for p in row) for row in chosen]
    for kind in dict.fromkeys(kinds):
        places = [i for i, k in enumerate(kinds) if k == kind]
        index = None if len(places) == len(priors) else torch.tensor(places, device=device)
        start = 0
        while start < len(kind):
            stop = start
            while stop < len(kind) and kind[stop] == kind[start]:
                stop += 1
            family, entries = chosen[places[0]][start].family, layout.entries[start:stop]
            columns = slice(entries[0].start, entries[-1].stop)
            parts = [
                [chosen[i][start + j].parameters(entry) for j, entry in enumerate(entries)] for i in places
            ]
            values = tuple(
                torch.stack([torch.cat([p[name] for p in row]) for row in parts]).to(dtype).to(device)
                for name in family.parameters
            )
            terms.append(Term(family, index, columns, values))
            start = stop
    return JointPrior(len(priors), layout.size, tuple(terms))
