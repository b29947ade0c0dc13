"""Frozen draws of Bayesian networks as plain matrices: what a controller asks thousands of times for one decision.

`cbdl.CBDL.predict` samples parameters anew for every call. Here they are drawn once, with the units of the data folded
into the first and the last layer, so that a whole population of plans is a few matrix products; what comes out is what
`predict(X, samples=draws, predictive="normal")` says. N sets of networks, one per patient, are evaluated side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import cbdl
from cbdl.bayes.learned import Learned
from cbdl.bayes.predictive import parameters

BLOCK = 1 << 20
"""Numbers of one layer's output that are held at once: about what a cache holds."""


@dataclass(frozen=True, eq=False)
class Group:
    """Members of one architecture: m members, D draws of each, all with rectified linear units."""

    weights: tuple[Tensor, ...]
    """Of every layer: (N, m D, outputs, inputs)."""
    biases: tuple[Tensor, ...]
    """(N, m D, outputs, 1)."""
    noise: Tensor
    """The variance of the outcome given the draw, (mg/dL)^2: (N, m, D)."""
    places: tuple[int, ...]
    """Where the members stand in a prediction."""

    @property
    def width(self) -> int:
        """Numbers per row that the widest layer puts out."""
        return max(w.shape[1] * w.shape[2] for w in self.weights)

    def tensors(self) -> Iterable[Tensor]:
        """Everything that leads with N."""
        return (*self.weights, *self.biases, self.noise)

    def of(self, tensors: Iterable[Tensor]) -> Group:
        """The same with other tensors, in the order of `tensors`."""
        own = tuple(tensors)
        layers = len(self.weights)
        return Group(own[:layers], own[layers : 2 * layers], own[-1], self.places)

    def first(self, x: Tensor) -> Tensor:
        """The first layer of inputs (N, R, inputs) before its units: (N, m D, width, R)."""
        return _applied(self.weights[0], x).add_(self.biases[0])

    def rest(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance (N, m, R) of the outcome, from the first layer (N, m D, width, R), which is used up."""
        shape, rows = self.noise.shape, h.shape[-1]
        h = h.flatten(0, 1)
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            h = torch.baddbmm(bias.flatten(0, 1), weight.flatten(0, 1), h.relu_())
        outputs = h.view(*shape, rows)
        mean = outputs.mean(2)  # torch.var_mean takes several times as long over so few draws
        variance = (outputs - mean.unsqueeze(2)).square().mean(2)
        return mean, variance + self.noise.mean(2, keepdim=True)


@dataclass(frozen=True, eq=False)
class Networks:
    """N sets of m members."""

    groups: tuple[Group, ...]

    @classmethod
    def of(cls, model: cbdl.CBDL, draws: int) -> Networks:
        """One set (N = 1): the first `draws` draws of `model`, whose networks are `cbdl.nets.mlp` with "relu"."""
        learned = model.learned
        return cls(tuple(_group(learned, s, draws) for s in learned.parts))

    @property
    def sets(self) -> int:
        """N."""
        return self.groups[0].noise.shape[0]

    @property
    def members(self) -> int:
        """m."""
        return sum(len(group.places) for group in self.groups)

    @property
    def inputs(self) -> int:
        return self.groups[0].weights[0].shape[-1]

    def only(self, place: int) -> Networks:
        """One of the members, alone."""
        for group in self.groups:
            if place in group.places:
                at, draws = group.places.index(place), group.noise.shape[2]
                own = slice(at * draws, (at + 1) * draws)
                weights, biases = (
                    tuple(t[:, own] for t in layers) for layers in (group.weights, group.biases)
                )
                return Networks((Group(weights, biases, group.noise[:, at : at + 1], (0,)),))
        raise ValueError(f"place is {place}; there are {self.members} members")

    @staticmethod
    def stack(sets: Sequence[Networks]) -> Networks:
        """The sets of all, one after the other; they have the same architectures."""
        groups = [
            own[0].of(torch.cat(same) for same in zip(*(g.tensors() for g in own), strict=True))
            for own in zip(*(one.groups for one in sets), strict=True)
        ]
        return Networks(tuple(groups))

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (N, m, R) of every member for inputs (N, R, inputs)."""
        return self._gathered([_asked(group, x) for group in self.groups])

    def after_windows(self, readings: Tensor, doses: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (N, m, R, P) of every member after R windows of readings (N, R, H), each with
        the doses (N, R, P, H) of P plans. What readings add to the first layer is computed once for all plans."""
        return self._gathered([_after_windows(group, readings, doses) for group in self.groups])

    def after_levels(self, levels: Tensor, doses: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (N, m, R) of every member after windows whose readings all are its own level
        (N, m, R), with doses (N, R, H)."""
        return self._gathered([_after_levels(group, levels, doses) for group in self.groups])

    def _gathered(self, parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        order = torch.tensor([place for group in self.groups for place in group.places]).argsort()
        mean, variance = (torch.cat(own, 1) for own in zip(*parts, strict=True))
        if len(self.groups) > 1:
            mean, variance = mean[:, order], variance[:, order]
        return mean, variance.sqrt()

    # --- what is kept ---------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[np.float32]]:
        """All numbers by name; `from_arrays` reads them."""
        own: dict[str, npt.NDArray[np.float32]] = {}
        for g, group in enumerate(self.groups):
            own |= {f"{g}.{i}": t.numpy() for i, t in enumerate(group.tensors())}
            own[f"{g}.places"] = np.array(group.places, dtype=np.float32)
        return own

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[np.float32]]) -> Networks:
        """The inverse of `arrays`."""
        groups: list[Group] = []
        while f"{len(groups)}.places" in arrays:
            g = len(groups)
            count = sum(name.startswith(f"{g}.") for name in arrays) - 1
            tensors = [torch.from_numpy(arrays[f"{g}.{i}"]) for i in range(count)]
            layers = (count - 1) // 2
            places = tuple(int(p) for p in arrays[f"{g}.places"])
            groups.append(
                Group(tuple(tensors[:layers]), tuple(tensors[layers : 2 * layers]), tensors[-1], places)
            )
        return cls(tuple(groups))


def _applied(weight: Tensor, x: Tensor) -> Tensor:
    """(N, m D, outputs, R) of weights (N, m D, outputs, inputs) and rows (N, R, inputs): one product per set, for which
    rows are not copied for every draw."""
    return torch.matmul(weight.flatten(1, 2), x.mT).view(*weight.shape[:3], -1)


def _asked(group: Group, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (N, m, R) of one group for inputs (N, R, inputs), a bounded number of rows at a time."""
    some = max(1, BLOCK // (x.shape[0] * group.width))
    starts = range(0, x.shape[1], some)
    parts = [group.rest(group.first(x[:, a : a + some])) for a in starts]
    mean, variance = (torch.cat(own, 2) for own in zip(*parts, strict=True))
    return mean, variance


def _after_windows(group: Group, readings: Tensor, doses: Tensor) -> tuple[Tensor, Tensor]:
    """`Networks.after_windows` of one group, a bounded number of windows at a time."""
    sets, rows, plans, steps = doses.shape
    of_readings, of_doses = group.weights[0][..., :-steps], group.weights[0][..., -steps:]
    some = max(1, BLOCK // (sets * group.width * plans))
    parts = []
    for a in range(0, rows, some):
        fixed = _applied(of_readings, readings[:, a : a + some]).add_(group.biases[0])
        h = _applied(of_doses, doses[:, a : a + some].flatten(1, 2))
        h = h.view(*fixed.shape, plans).add_(fixed.unsqueeze(-1))
        parts.append([t.view(*t.shape[:2], -1, plans) for t in group.rest(h.flatten(3))])
    mean, variance = (torch.cat(own, 2) for own in zip(*parts, strict=True))
    return mean, variance


def _after_levels(group: Group, levels: Tensor, doses: Tensor) -> tuple[Tensor, Tensor]:
    """`Networks.after_levels` of one group, a bounded number of rows at a time."""
    sets, rows, steps = doses.shape
    weight, draws = group.weights[0], group.noise.shape[2]
    per_level = weight[..., :-steps].sum(-1, keepdim=True)
    own = levels[:, list(group.places)].repeat_interleave(draws, 1).unsqueeze(2)
    some = max(1, BLOCK // (sets * group.width))
    parts = []
    for a in range(0, rows, some):
        h = _applied(weight[..., -steps:], doses[:, a : a + some]).add_(group.biases[0])
        parts.append(group.rest(h.addcmul_(per_level, own[..., a : a + some])))
    mean, variance = (torch.cat(part, 2) for part in zip(*parts, strict=True))
    return mean, variance


def _group(learned: Learned, s: int, draws: int) -> Group:
    """The draws of one cohort, in the units of the data."""
    cohort, unit = learned.parts[s].cohort, learned.targets
    theta, noise = (t.double() for t in parameters(learned, s, draws))
    tensors = [
        theta[..., entry.start : entry.stop].reshape(1, -1, *entry.shape) for entry in cohort.layout.entries
    ]
    weights, biases = tensors[0::2], [b.unsqueeze(-1) for b in tensors[1::2]]
    loc, scale, middle, spread = (
        t.double() for t in (learned.inputs.loc, learned.inputs.scale, unit.loc, unit.scale)
    )
    weights[0] = weights[0] / scale
    biases[0] = biases[0] - (weights[0] @ loc).unsqueeze(-1)
    weights[-1] = weights[-1] * spread
    biases[-1] = biases[-1] * spread + middle
    nothing = theta.new_zeros(*theta.shape[:2], 1, 1)
    variance = cohort.likelihood.describe(nothing, noise, middle, spread)["scale"].square()
    first, second = (tuple(t.float().contiguous() for t in layers) for layers in (weights, biases))
    return Group(first, second, variance.view(1, *theta.shape[:2]).float(), tuple(learned.places(s)))
