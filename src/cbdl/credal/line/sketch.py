"""The dual of the smallest region on polynomials between nodes: a start for `minimal` that knows no components.

The densities of all extremes are tabulated once on the grid of their set, with the mass of every cell. Then D, its
gradient and its Hessian at any lambda cost a few operations per node and extreme, however many components there are.
All is good to about 1e-5; Newton's method on the mixtures themselves (`ends`) goes on from there and proves its answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from cbdl.credal.line.ends import Dual, Ends
from cbdl.credal.line.grids import Grid
from cbdl.credal.line.mesh import two_sum
from cbdl.credal.line.mixture import Derivatives
from cbdl.credal.line.quintic import Node, mass, quintic

LEAST = 1e-7
"""The smallest alpha for which it is good enough: the grids end where 1e-12 of the mass is left."""


@dataclass(frozen=True)
class Sketch:
    """Log densities and derivatives of the extremes at the nodes of B grids, and the mass left and right (T, m)."""

    grid: Grid
    node: Node
    left: Tensor
    right: Tensor
    alpha: float

    def __len__(self) -> int:
        return len(self.grid.count)

    def __getitem__(self, rows: Tensor) -> Sketch:
        if len(rows) == len(self):
            return self
        grid, index = self.grid.take(rows)
        logp, slope, curve = (v[index] for v in self.node)
        return Sketch(grid, (logp, slope, curve), self.left[index], self.right[index], self.alpha)

    @cached_property
    def _plain(self) -> tuple[Tensor, Tensor, Tensor]:
        """Densities and their slopes (T, m), and which nodes (T,) are not the first or last of their grid."""
        inner = torch.ones_like(self.grid.owner, dtype=torch.bool)
        inner[self.grid.first[1:] - 1] = False
        inner[self.grid.first[:-1]] = False
        p = self.node[0].exp()
        return p, p * self.node[1], inner

    def dual(self, lam: Tensor) -> Dual:
        """D at lambda (B, m)."""
        return self.region(lam)[1]

    def region(self, lam: Tensor) -> tuple[Ends, Dual]:
        """{q >= 1}, q = sum_j lambda_j p_j, and D at lambda (B, m)."""
        grid = self.grid
        cell, t, width = self._cuts(lam)
        owner, here, there = grid.owner[cell], self._at(cell), self._at(cell + 1)
        width = width[:, None]
        logp, slope, curve = quintic(width, here, there).at(t[:, None].expand_as(here[0]))
        slope, curve = slope / width, curve / width.square()
        part = t[:, None] * width
        left = self.left[cell] + mass(part, here, (logp, slope, curve))
        right = self.right[cell + 1] + mass(width - part, (logp, slope, curve), there)
        ends = Ends(
            owner[::2], *two_sum(grid.high[cell].view(-1, 2), (grid.low[cell] + part[:, 0]).view(-1, 2))
        )
        density = logp.exp()
        steep = (density * slope * lam[owner]).sum(-1).abs().clamp_min(1e-300)
        outer = density[:, :, None] * (density / steep[:, None])[:, None, :]
        hessian = lam.new_zeros(*lam.shape, lam.shape[1]).index_add_(0, owner, outer)
        return ends, Dual(self._short(owner, left, right, lam), ends.measure(len(lam)), hessian)

    def _cuts(self, lam: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Where q crosses 1, in order: the cell, the place in it from 0 to 1, and the width of the cell (R,)."""
        grid = self.grid
        p, slope, inner = self._plain
        price = lam[grid.owner]
        above = ((p * price).sum(-1) >= 1) & inner
        rising = (slope * price).sum(-1) > 0
        same, both = above[1:] == above[:-1], inner[1:] & inner[:-1]
        bent = both & (rising[1:] != rising[:-1])
        # Between two nodes below 1 there may be a peak above it, and the other way round.
        pairs = same & bent & (rising[:-1] != above[:-1])
        cell = (pairs | ~same).nonzero()[:, 0]
        width = (grid.high[cell + 1] - grid.high[cell]) + (grid.low[cell + 1] - grid.low[cell])
        logs = lam.log()[grid.owner[cell]]
        line = quintic(width, _sum(self._at(cell), logs), _sum(self._at(cell + 1), logs))
        zero, one = torch.zeros_like(width), torch.ones_like(width)
        pair, bend = pairs[cell], bent[cell]
        turn = zero.clone()
        turn[bend] = line[bend].turn()
        hidden = pair & ((line.at(turn)[0] > 0) != above[cell])
        # Where a single crossing shares its cell with a turning point, it lies on the side that goes its way.
        late = ~pair & bend & (rising[cell] != above[cell + 1])
        early = bend & ~late
        low = torch.stack([torch.where(late, turn, zero), turn], -1).view(-1)
        high = torch.stack([torch.where(early, turn, one), one], -1).view(-1)
        keep = torch.stack([hidden | ~pair, hidden], -1).view(-1).nonzero()[:, 0]
        place = line[keep // 2].root(torch.zeros_like(low[keep]), low[keep], high[keep])
        return cell[keep // 2], place, width[keep // 2]

    def prices(self, level: Tensor) -> Tensor:
        """(B, m): a start for lambda from the levels log c (B, m) of the extremes' own regions.

        1 / c is right for extremes far apart. Where others are as high at an extreme's peak, they share its price.
        """
        lam = (-level).exp()
        m = lam.shape[1]
        logp = self.node[0]
        top = torch.full_like(level, -torch.inf).scatter_reduce(
            0, self.grid.owner[:, None].expand(-1, m), logp, "amax"
        )
        node, extreme = (logp == top[self.grid.owner]).nonzero(as_tuple=True)
        owner = self.grid.owner[node]
        here = (logp[node] - level[owner]).exp()
        shared = here.sum(-1) / here.gather(-1, extreme[:, None])[:, 0]
        return lam / torch.ones_like(lam).index_put((owner, extreme), shared)

    def _short(self, owner: Tensor, left: Tensor, right: Tensor, lam: Tensor) -> Tensor:
        """(B, m): 1 - alpha - P_j(R), from what lies outside."""
        last = torch.ones_like(owner, dtype=torch.bool)
        last[:-1] = owner[1:] != owner[:-1]
        sign = torch.ones_like(left[:, :1])
        sign[1::2] = -1
        outside = torch.zeros_like(lam).index_add_(0, owner, torch.where(last[:, None], right, sign * left))
        empty = torch.ones_like(lam[:, 0], dtype=torch.bool)
        empty[owner] = False
        return torch.where(empty[:, None], 1.0, outside) - self.alpha

    def _at(self, node: Tensor) -> Node:
        return self.node[0][node], self.node[1][node], self.node[2][node]


def sketched(grid: Grid, values: Derivatives, alpha: float) -> Sketch:
    """The sketch of sets with these values of every extreme (T, m) on their grids."""
    logp, slope, bend = values
    curve = bend - slope.square()
    width = torch.zeros_like(grid.high)
    width[:-1] = (grid.high[1:] - grid.high[:-1]) + (grid.low[1:] - grid.low[:-1])
    width[grid.first[1:] - 1] = 0
    here = logp[:-1], slope[:-1], curve[:-1]
    cell = torch.zeros_like(logp)
    cell[:-1] = mass(width[:-1, None], here, (logp[1:], slope[1:], curve[1:]))
    cell = torch.where(width[:, None] > 0, cell, 0.0)
    # Sums start afresh with each grid: from the left they come before a cell, from the right they hold it.
    left = cell.cumsum(0) - cell
    left = left - left[grid.first[:-1]][grid.owner]
    right = cell.flip(0).cumsum(0).flip(0)
    return Sketch(grid, (logp, slope, curve), left, right - right[grid.first[1:] - 1][grid.owner], alpha)


def _sum(node: Node, logs: Tensor) -> Node:
    """log q, its slope and curvature at nodes, from those of the extremes (R, m) and log lambda (R, m)."""
    terms = node[0] + logs
    value = torch.logsumexp(terms, -1)
    share = (terms - value[:, None]).exp()
    slope = (share * node[1]).sum(-1)
    return value, slope, (share * (node[2] + node[1].square())).sum(-1) - slope.square()
