"""Highest density regions of classes, precise and imprecise (paper: definitions "hdr-def" and "ihdr-def",
appendix "ihdr_class", conclusion).

Of one categorical the region is its credible set. For a credal set there are three, and all of them cover
with lower probability at least 1 - alpha:

- "union": the union of the credible sets of the extremes, the paper's operative way;
- "lower-density": a level set of the lower probability mass function, from the paper's conclusion;
- "minimal": the definition itself, the fewest classes that the whole set agrees to cover.

The paper says that "lower-density" is tighter than "union". For classes this may fail in either direction:
extremes that agree on no class have a lower mass function of 0, whose only level set is the whole space.
Only "minimal" is never larger than the other two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._batch import in_chunks
from cbdl.credal._border import Array, ArrayLike, Border, check_alpha, first, float64
from cbdl.credal.answers import Region
from cbdl.credal.classes.cover import smallest_cover
from cbdl.credal.table import listed, region_columns
from cbdl.ground.compiling import spread, worth
from cbdl.ground.labels import numbers_of

ROUNDING = 1e-12
"""A level that misses 1 - alpha by less is reached: 0.6 + 0.2 + 0.1 is 0.9. Use 1e-6 for float32 inputs."""


_MANY = 32
"""From so many classes on, sorting values alone pays."""
_BLOCK = 32
"""Sorted probabilities that are summed together."""
_SORTED = 1 << 22
"""Bytes of probabilities that are sorted at a time: the processor's cache."""
LOOPS = 1 << 26
"""Probabilities of many classes, of all calls, before compiled loops are loaded."""


@dataclass(frozen=True, repr=False)
class ClassRegion(Region):
    """A set of classes, in the user's kind of array.

    mask:              (..., J) which classes belong
    measure:           (...,) how many
    lower_probability: (...,) min over the credal set of P(region)
    upper_probability: (...,) max over the credal set of P(region)
    level:             (...,) the level attained: the lower probability, at least 1 - alpha - slack
    gap:               (...,) every region of the level has at least measure - gap classes: 0 proves that
                       `measure` is minimal. Methods other than "minimal" prove nothing and say -1
    labels:            the names of the classes, if the set knows them

    >>> from cbdl import CategoricalCredalSet
    >>> CategoricalCredalSet([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1]]).region(0.1).mask
    array([ True,  True, False])
    """

    mask: Array
    measure: Array
    lower_probability: Array
    upper_probability: Array
    level: Array
    gap: Array
    _mask: Tensor = field(repr=False, compare=False)
    _border: Border = field(repr=False, compare=False)
    labels: tuple[str, ...] | None = field(default=None, repr=False)

    def contains(self, y: ArrayLike) -> Array:
        """Whether the labels `y` belong, by number or by name: (...,) one per set, or (..., n) several per set."""
        numbers = numbers_of(y, self.labels)
        labels, several = labels_of(numbers, self._mask.shape[-1], self._mask.shape[:-1])
        inside = self._mask.gather(-1, labels.to(self._mask.device))
        return self._border.out(inside if several else inside.squeeze(-1))

    def columns(self) -> dict[str, list[Any]]:
        """ "set", the classes by name or number, and what all regions have."""
        batch = tuple(self._mask.shape[:-1])
        names: Sequence[Any] = self.labels or range(self._mask.shape[-1])
        inside = listed(self.mask, batch)
        sets = [[name for name, own in zip(names, row, strict=True) if own] for row in inside]
        return {"set": sets, **region_columns(self, batch)}

    def hull(self) -> tuple[Array, Array]:
        """(...,) twice: the first and the last class of the region, where the order of classes means something."""
        mask, last = self._mask.to(torch.uint8), self._mask.shape[-1] - 1
        return self._border.out(mask.argmax(-1)), self._border.out(last - mask.flip(-1).argmax(-1))


def labels_of(y: ArrayLike, classes: int, batch: torch.Size) -> tuple[Tensor, bool]:
    """Labels (..., n) for every set of the batch, from y (...,) or (..., n), and whether the n was given."""
    labels = _labels(y, classes)
    several = labels.ndim == len(batch) + 1
    labels = labels if several else labels.unsqueeze(-1)
    try:
        return labels.expand(*batch, labels.shape[-1]), several
    except RuntimeError:
        shape = tuple(labels.shape if several else labels.shape[:-1])
        raise ValueError(
            f"y has shape {shape}, the batch of sets {tuple(batch)}; give one label per set (...,) or "
            "several (..., n)"
        ) from None


def _labels(y: ArrayLike, classes: int) -> Tensor:
    values = float64(y, "y")
    bad = ~((values >= 0) & (values < classes) & (values == values.floor()))
    if bad.any():
        at = first(bad)
        raise ValueError(
            f"y{list(at)} is {values[at].item():g}; labels are whole numbers from 0 to {classes - 1}"
        )
    return values.long()


def log_survival(P: Tensor) -> Tensor:
    """(..., J): log of max_j P_j(classes at most as likely as y) for every class y; ties by class index.

    1 minus that is the level at which the union of credible sets first holds y.

    >>> P = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]], dtype=torch.float64)
    >>> log_survival(P).exp()
    tensor([1.0000, 1.0000, 0.4000], dtype=torch.float64)
    """
    ordered, order = P.sort(dim=-1, descending=True, stable=True)
    before = torch.cat([torch.zeros_like(ordered[..., :1]), ordered.cumsum(-1)[..., :-1]], -1)
    # Either sum is of small numbers where it is used: nearly nothing before, or nearly nothing left.
    left = ordered.flip(-1).cumsum(-1).flip(-1)
    logs = torch.where(before < 0.5, torch.log1p(-before), left.log())
    return torch.empty_like(P).scatter_(-1, order, logs).amax(-2)


def region_from_mask(P: Tensor, mask: Tensor, border: Border, gap: Tensor | None = None) -> ClassRegion:
    """The region `mask` (..., J) of the sets `P` (..., m, J), with the probabilities it attains."""
    inside = (mask.to(P).unsqueeze(-2) @ P.mT).squeeze(-2)  # from this side, several times as fast
    # A sum of probabilities may end an ulp above 1.
    return region_of(mask, inside.amin(-1).clamp(0, 1), inside.amax(-1).clamp(0, 1), border, gap)


def region_of(
    mask: Tensor, lower: Tensor, upper: Tensor, border: Border, gap: Tensor | None = None
) -> ClassRegion:
    """The region `mask` (..., J) with its lower and upper probability (...,)."""
    count = mask.sum(-1)
    return ClassRegion(
        mask=border.out(mask),
        measure=border.out(count),
        lower_probability=border.out(lower),
        upper_probability=border.out(upper),
        level=border.out(lower),
        gap=border.out(torch.full_like(count, -1) if gap is None else gap),
        _mask=mask,
        _border=border,
    )


def region(
    P: Tensor,
    alpha: float,
    method: str = "union",
    *,
    border: Border,
    slack: float = 0.0,
    tolerance: float = ROUNDING,
) -> ClassRegion:
    """The (1 - alpha)-region of the sets `P` (..., m, J) by `method`, ready for the user."""
    batch, (m, J) = P.shape[:-2], P.shape[-2:]
    mask, gap = _solve(P.reshape(-1, m, J), alpha, method, slack, tolerance)
    return region_from_mask(P, mask.reshape(*batch, J), border, gap.reshape(batch))


def class_region(
    P: Tensor, alpha: float, method: str = "union", *, slack: float = 0.0, tolerance: float = ROUNDING
) -> Tensor:
    """(B, J) bool: the (1 - alpha)-region of every set of `P` (B, m, J).

    `slack` accepts a region whose level is at most that much below 1 - alpha (the remark of appendix
    "ihdr_class"); `tolerance` only forgives rounding.

    The paper's table, alpha = 0.1:

    >>> import torch
    >>> P = torch.tensor([[[.7, .25, .03, .01, .01], [.6, .2, .1, .05, .05], [.5, .3, .15, .025, .025]]])
    >>> class_region(P.double(), 0.1, "minimal", tolerance=1e-6)
    tensor([[ True,  True,  True, False, False]])
    """
    return _solve(P, alpha, method, slack, tolerance)[0]


def _solve(P: Tensor, alpha: float, method: str, slack: float, tolerance: float) -> tuple[Tensor, Tensor]:
    target = target_of(alpha, slack, tolerance)
    check_method(method, REGIONS)
    return REGIONS[method](P, target, tolerance)


def target_of(alpha: float, slack: float, tolerance: float) -> float:
    """The lower probability that a region must reach."""
    level = 1 - check_alpha(alpha)
    if not 0 <= slack < level:
        raise ValueError(f"slack is {slack:g}; it must be at least 0 and below 1 - alpha = {level:g}")
    return level - slack - tolerance


def check_method(method: str, known: Iterable[str]) -> None:
    if method not in known:
        raise ValueError(f"method is {method!r}; give one of {', '.join(map(repr, known))}")


def credible_set(p: Tensor, alpha: float, *, slack: float = 0.0, tolerance: float = ROUNDING) -> Tensor:
    """(..., J) bool: the fewest most likely classes whose probability reaches 1 - alpha, under `p` (..., J).

    The smallest j with p_(1) + ... + p_(j) >= 1 - alpha - slack, classes ordered from the most to the least
    likely, ties by class index. Paper: equation "cs_def". It is the highest density region of a categorical,
    except that ties at the last level do not all belong.
    """
    return _credible_set(p, 1 - check_alpha(alpha) - slack - tolerance)


def _credible_set(p: Tensor, target: float) -> Tensor:
    if p.device.type != "cpu" or p.shape[-1] < _MANY:
        return _ordered_set(p, target)
    least, tied = _least(p, target)
    mask = p >= least
    if tied.any():
        mask[tied] = _ordered_set(p[tied], target)
    return mask


def _least(p: Tensor, target: float) -> tuple[Tensor, Tensor]:
    """(..., 1): the least probability that belongs to the credible set; (...,): whether one that does not is equal.

    Values alone: numpy sorts them much faster. Sums of blocks first, then those within the block that matters.
    """
    J = p.shape[-1]
    ordered = np.zeros((*p.shape[:-1], -(-J // _BLOCK) * _BLOCK))
    np.negative(p.numpy(), out=ordered[..., :J])
    ordered[..., :J].sort(-1)  # the most likely first
    blocks = ordered.reshape(*p.shape[:-1], -1, _BLOCK)
    before = -np.cumsum(blocks.sum(-1), -1)[..., :-1]
    # The class that makes the sum reach the target belongs: look at the sum before it.
    block = (before < target).sum(-1, keepdims=True)
    start = np.take_along_axis(np.insert(before, 0, 0.0, -1), block, -1)
    inner = np.take_along_axis(blocks, block[..., None], -2)[..., 0, :]
    inside = (start - np.cumsum(inner, -1)[..., :-1] < target).sum(-1, keepdims=True)
    last = np.minimum(block * _BLOCK + inside, J - 1)
    least = np.take_along_axis(ordered, last, -1)
    after = np.take_along_axis(ordered, np.minimum(last + 1, J - 1), -1)
    return torch.from_numpy(-least), torch.from_numpy(((least == after) & (last + 1 < J))[..., 0])


def _ordered_set(p: Tensor, target: float) -> Tensor:
    ordered, order = p.sort(dim=-1, descending=True, stable=True)
    # The class that makes the sum reach the target belongs: look at the sum before it.
    keep = torch.ones_like(p, dtype=torch.bool)
    keep[..., 1:] = ordered.cumsum(-1)[..., :-1] < target
    return torch.zeros_like(keep).scatter_(-1, order, keep)


def unproven(P: Tensor) -> Tensor:
    """(B,): the gap of regions that are not claimed to be minimal."""
    return torch.full(P.shape[:1], -1, dtype=torch.int64, device=P.device)


def _union(P: Tensor, target: float, tolerance: float) -> tuple[Tensor, Tensor]:
    """The classes that belong to the credible set of some extreme."""
    m, J = P.shape[-2:]

    def part(p: Tensor) -> Tensor:
        if p.device.type != "cpu" or J < _MANY:
            return _ordered_set(p, target).any(-2)
        least, tied = _least(p, target)
        mask = (p - least).amax(-2) >= 0
        rows = tied.any(-1)
        if rows.any():
            mask[rows] = _credible_set(p[rows], target).any(-2)
        return mask

    # Into one tensor: small ones that stay between large ones that go would keep much memory from being used again.
    mask = torch.empty(len(P), J, dtype=torch.bool, device=P.device)
    step = max(1, _SORTED // (8 * m * J))
    if P.device.type == "cpu" and J >= _MANY and worth(f"{__package__}.loops", P.numel(), LOOPS):
        tied = _looped_union(P, target, mask).nonzero()[:, 0]
        for i in range(0, len(tied), step):
            rows = tied[i : i + step]
            mask[rows] = part(P[rows])
        return mask, unproven(P)
    for i in range(0, len(P), step):
        mask[i : i + step] = part(P[i : i + step])
    return mask, unproven(P)


def _looped_union(P: Tensor, target: float, mask: Tensor) -> Tensor:
    """The same by compiled loops, into `mask` (B, J); (B,): the sets that are to be looked at again."""
    from cbdl.credal.classes import loops

    tied = torch.empty(len(P), dtype=torch.bool)
    given = P.contiguous().numpy(), target, mask.numpy(), tied.numpy()
    spread(lambda first, last: loops.union(first, last, *given), len(P))
    return tied


def _lower_density(P: Tensor, target: float, tolerance: float) -> tuple[Tensor, Tensor]:
    """{y : min_j p_j(y) >= c} with the largest c whose lower probability reaches the target."""

    def part(p: Tensor) -> tuple[Tensor]:
        density = p.amin(-2)
        order = density.argsort(dim=-1, descending=True, stable=True)
        reached = p.gather(-1, order.unsqueeze(-2).expand_as(p)).cumsum(-1).amin(-2)
        last = (reached < target).sum(-1, keepdim=True).clamp_max(p.shape[-1] - 1)
        level = density.gather(-1, order.gather(-1, last))
        return (density >= level * (1 - tolerance),)

    m, J = P.shape[-2:]
    (mask,) = in_chunks(part, P, per_set=32 * m * J)
    return mask, unproven(P)


REGIONS: dict[str, Callable[[Tensor, float, float], tuple[Tensor, Tensor]]] = {
    "union": _union,
    "lower-density": _lower_density,
    "minimal": smallest_cover,
}
"""By name: (sets (B, m, J), target probability, tolerance) -> mask (B, J), and the gap to the minimum (B,)."""
