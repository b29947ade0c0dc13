"""Entropies and regions of many Normal mixtures by compiled loops (numba), set after set.

The same numbers as those of tensor operations, with the same certificates, several times as fast: nothing but the
parameters and the answers leaves the nearest cache, and no mixture waits for others. Few mixtures, other devices, and
machines without numba go by tensor operations; so does what the loops are not sure of.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

from cbdl.credal.line.even import STEP, reach
from cbdl.credal.line.levels import Crossings
from cbdl.credal.line.mesh import POINTS, Mesh
from cbdl.credal.line.mixture import Extremes, Mixtures
from cbdl.ground import compiling
from cbdl.ground.compiling import spread

MANY, LEAST = 50_000, 1_000_000
"""Components of all mixtures of a call for which loops are worth while; and of all calls, before they are loaded."""
NODES, NUMBERS = 1 << 18, 1 << 21
"""Nodes of the coarsest grid of a set at most, and densities there of all its extremes."""
Ends: TypeAlias = tuple[Tensor, Tensor]
"""Places high + low."""
ENDS = 16
"""Ends of a region at most."""


def worth(components: Tensor, *, nodes: int = 1, counts: bool = True) -> bool:
    """Whether loops are to be used for so many components; `counts`: they are work for which loops may be loaded.

    `nodes`: how many times as many as usual each of them is evaluated.
    """
    many = components.device.type == "cpu" and components.numel() * nodes >= MANY
    work = components.numel() if counts else 0
    return many and compiling.worth(f"{__name__}.region_loops", work, LEAST)


def most(extremes: int) -> int:
    """Nodes of the coarsest grid of a set at most: it is a cheap way even for sets that reach far."""
    return min(NODES, NUMBERS // extremes)


def entropies(sets: Extremes, size: Tensor, over: int, *, upper: bool) -> tuple[Tensor, ...]:
    """(B, m) entropies of the extremes and their errors, on even grids of `size` (B,) nodes times `over`.

    With `upper` also the upper entropy (B,), its gap (B,), its weights (B, m) and its error (B,).
    """
    from cbdl.credal.line.compiled import entropy_loops as loops

    low, _, unit = reach(sets)
    value, error, beta = (torch.empty(sets.loc.shape[:2], dtype=torch.float64) for _ in range(3))
    best = torch.empty(len(sets), 3 if upper else 0, dtype=torch.float64)
    given = [t.contiguous().numpy() for t in (sets.loc, sets.scale, sets.weights, low, unit, size * over)]
    answers = [t.numpy() for t in (value, error, best, beta)]
    spread(lambda first, last: loops.entropies(first, last, STEP / over, *given, *answers), len(sets))
    return (value, error, best[:, 0], best[:, 1], beta, best[:, 2]) if upper else (value, error)


def regions(mix: Mixtures, log_alpha: Tensor, slack: float) -> tuple[Tensor, Crossings]:
    """(B,) the levels of highest density regions, nan where the loops are not sure; and the ends of the others.

    With `slack` levels are lowered by so many units of rounding, and ends moved outwards along the tangents there.
    """
    from cbdl.credal.line.compiled import region_loops as loops

    start, level = torch.empty_like(log_alpha), torch.empty_like(log_alpha)
    low, score = (torch.empty(len(mix), ENDS, dtype=torch.float64) for _ in range(2))
    count = torch.zeros(len(mix), dtype=torch.int64)
    given = [t.contiguous().numpy() for t in (mix.loc, mix.scale, mix.weight, log_alpha)]
    answers = [t.numpy() for t in (start, level, low, score, count)]
    spread(lambda first, last: loops.regions(first, last, *given, *answers), len(mix))
    if slack:
        # log p is at most a few larger at the top; an end that has settled is off by some units more
        by = 2 * slack * torch.finfo(torch.float64).eps * (8 + 2 * level.abs())
        level, low = level - by, low - by[:, None] / score
    own, place = (torch.arange(ENDS) < count[:, None]).nonzero(as_tuple=True)
    return level, Crossings(own, start[own], low[own, place], place % 2 == 0, score[own, place])


def interval_masses(sets: Extremes, owner: Tensor, start: Ends, end: Ends) -> Tensor:
    """(R, m): the probability of flat intervals (R,) of the sets `owner` under each extreme, nan where not sure."""
    from cbdl.credal.line.compiled import sum_loops as loops

    mass = torch.empty(len(owner), sets.m, dtype=torch.float64)
    places = (torch.stack(side, -1) for side in (start, end))
    given = [t.contiguous().numpy() for t in (sets.loc, sets.scale, sets.weights, owner, *places)]
    answers = [mass.numpy()]
    spread(lambda first, last: loops.masses(first, last, *given, *answers), len(owner))
    return mass


def densities(mesh: Mesh, loc: Tensor, scale: Tensor, weights: Tensor) -> Tensor:
    """(B, m, N): the densities of m mixtures (B, m, M) at the nodes of meshes, as `mesh.density`."""
    from cbdl.credal.line.compiled import sum_loops as loops

    p = loc.new_empty(*loc.shape[:2], mesh.anchor.shape[1])
    given = [t.contiguous().numpy() for t in (mesh.anchor, mesh.offset, loc, scale, weights)]
    answers = [p.numpy()]
    spread(lambda first, last: loops.on_meshes(first, last, POINTS, *given, *answers), len(loc))
    return p
