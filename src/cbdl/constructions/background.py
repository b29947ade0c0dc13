"""Background: what lies beyond the training rows belongs to some class, and nothing says to which.

A network that was trained on ten classes spreads probability over ten classes, whatever it is shown. Here what its
layers see, z_1, ..., z_L, has densities: in every layer each class is a Normal around its mean, and beside the classes
there is a background. With known(z) the probability that a row is no background, and p the probabilities of the
network, the likelihood that labels the background as class k says

    p_k(y) = known(z) p(y) + (1 - known(z)) [y = k],    k = 1, ..., J.

The data hold no background, so that they prefer none of the J: all of them are kept, as the extremes of a credal set.
Among training rows it is nearly the one distribution p; far away it is every distribution there is. Nothing is trained:
means and covariances of rows whose classes are known are enough.

The network's outputs are seen as well, by one number: sum_y p(y) log p(y), the log likelihood that the network expects
of its own answer. A row of which it is less sure than of nearly all held-out rows is one that it does not know. Where
doubt is common among held-out rows this says little, where it is rare much.

Evidence adds up: the log odds of known(z) are those of all layers and, twice, of the outputs, on the scale of held-out
rows. That one of them finds a row ordinary counts for 99 to 1 at most, so that the rest do not outvote one that has
never seen the like.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from cbdl.constructions._given import class_numbers
from cbdl.credal import Array, ArrayLike, IntervalCredalSet

ODDS = 99.0
"""Odds of the classes against the background at the median of held-out rows."""
TWICE = 2.0
"""What the outputs count for, beside each of the layers, which all see the same image."""
RIDGE = 1e-3
"""Added to the variances of standardised features, so that directions without any variance have a density."""

Views: TypeAlias = ArrayLike | Sequence[ArrayLike]
"""Features of rows: (n, D), or one such matrix per layer."""


@dataclass(frozen=True, eq=False)
class Layer:
    """What one layer sees: Normals of the classes, and the two log densities by which its background is set.

    center (D,), transform (D, D): what whitens; means (J, D) of the classes, whitened. At the log density `level`
    classes and background are even; `unit` is the log density that makes a nat of their odds.
    """

    center: Tensor
    transform: Tensor
    means: Tensor
    level: float
    unit: float

    def log_density(self, z: Tensor) -> Tensor:
        """(n,): under the likeliest class, up to a constant: minus half the squared distance to the nearest mean."""
        return -0.5 * torch.cdist((z - self.center) @ self.transform, self.means).amin(1).square()

    def evidence(self, z: Tensor) -> Tensor:
        """(n,): the log odds against background, by this layer."""
        return _evidence((self.log_density(z) - self.level) / self.unit)


@dataclass(frozen=True)
class Outputs:
    """What the outputs say: `level` and `unit` as of a layer."""

    level: float
    unit: float

    @staticmethod
    def log_density(p: Tensor) -> Tensor:
        """(n,): the log likelihood that the network expects of its own answer, which is minus the entropy."""
        return torch.xlogy(p, p).sum(-1)

    def evidence(self, p: Tensor) -> Tensor:
        """(n,): the log odds against background of a row of which the network is so sure."""
        return TWICE * _evidence((self.log_density(p) - self.level) / self.unit)


@dataclass(frozen=True, eq=False)
class Background:
    """The background of a network, layer by layer."""

    layers: tuple[Layer, ...]
    """What each layer sees, in the order in which features are given."""
    outputs: Outputs | None = None
    """What its outputs say; None where nobody gave them."""
    level: float = 0.0
    """Of the evidence of all of them: where a row is as likely background as not."""
    unit: float = 1.0
    """The evidence that makes a nat of the odds."""

    def known(self, features: Views, probs: ArrayLike | None = None) -> Array:
        """(n,): the probability that a row is no background.

        - `features`: of new rows, (n, D) or one matrix per layer, as they were given for the training rows
        - `probs`: the network's probabilities (n, J) of the same rows, if those of held-out rows were given
        """
        if (probs is None) != (self.outputs is None):
            missing = "probs of these rows too" if probs is None else "those of held-out rows to background()"
            raise ValueError(f"probs are given of some rows alone; give {missing}")
        views = _views(features, "features", tuple(len(own.center) for own in self.layers))
        p = None if probs is None else _probs(probs, "probs", len(views[0]))
        known = torch.sigmoid((self.evidence(views, p) - self.level) / self.unit)
        return known if _are_tensors(features) else known.numpy()

    def evidence(self, views: Sequence[Tensor], probs: Tensor | None) -> Tensor:
        """(n,): of all layers and the outputs, added up."""
        own = [layer.evidence(z) for layer, z in zip(self.layers, views, strict=True)]
        if self.outputs is not None and probs is not None:
            own.append(self.outputs.evidence(probs))
        return torch.stack(own).sum(0)


def background(
    features: Views, y: ArrayLike, held_out: Views, share: float = 0.01, probs: ArrayLike | None = None
) -> Background:
    """The background of a network, from what its layers see of rows whose classes are known.

    At the median of held-out rows the odds against background are 99 to 1, and about a `share` of them is more likely
    background than not.

    - `features`: of training rows, (N, D) or one matrix per layer
    - `y`: their labels (N,)
    - `held_out`: the features of rows that the network was not trained on
    - `share`: between 0 and 0.5
    - `probs`: the network's probabilities (n, J) of the held-out rows; it is surer of training rows than of new ones

    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(400) % 2
    >>> rows = rng.normal(size=(400, 3)) + 4 * y[:, None]
    >>> own = background(rows[:300], y[:300], rows[300:])
    >>> own.known(np.array([[0.0, 0, 0], [4, 4, 4], [9, -9, 0]])).round(2)
    array([0.99, 0.99, 0.  ])
    """
    if not 0 < share < 0.5:
        raise ValueError(
            f"share is {share}; it is the share of held-out rows below the level, between 0 and 0.5"
        )
    views = _views(features, "features")
    labels = class_numbers(y).reshape(-1)
    if len(labels) != len(views[0]):
        raise ValueError(f"y has {len(labels)} labels for {len(views[0])} rows of features; give one each")
    others = _views(held_out, "held_out", tuple(z.shape[1] for z in views))
    judges = len(views) + (probs is not None)
    layers = []
    for z, other in zip(views, others, strict=True):
        own = Layer(*_normals(z, labels), 0.0, 1.0)
        level, unit = _border(own.log_density(other), share / judges, ODDS * judges)
        layers.append(replace(own, level=level, unit=unit))
    outputs = p = None
    if probs is not None:
        p = _probs(probs, "probs", len(others[0]))
        outputs = Outputs(*_border(Outputs.log_density(p), share / judges, ODDS * judges))
    ground = Background(tuple(layers), outputs)
    level, unit = _border(ground.evidence(others, p), share, ODDS)
    return replace(ground, level=level, unit=unit)


def _border(values: Tensor, share: float, odds: float) -> tuple[float, float]:
    """The level that a share of held-out rows is below, and the unit in which their median has these odds."""
    level, middle = (float(torch.quantile(values, q)) for q in (share, 0.5))
    return level, max(middle - level, 1e-12) / math.log(odds)


def _evidence(log_odds: Tensor) -> Tensor:
    """Log odds, of which those far above 99 to 1 count as 99 to 1."""
    most = math.log(ODDS)
    return most + torch.nn.functional.logsigmoid(log_odds - most)


def with_background(
    probs: ArrayLike, known: ArrayLike, networks: Literal["box", "average"] = "box"
) -> IntervalCredalSet:
    """The set of all labels of the background: from known p(y) to known p(y) + 1 - known, class by class.

    Of several networks either the box of their sets, as members of their own; or, where they are draws of one
    posterior, the set of their averages, label by label. How far draws differ is then no ignorance of the set, and
    their doubt is judged by the background if it is given the outputs.

    - `probs`: the networks' probabilities (..., m, J)
    - `known`: the probability (..., m) that a row is no background, by network
    - `networks`: "box" or "average"

    >>> probs, known = [[[0.9, 0.1], [0.5, 0.5]]], [[0.5, 0.5]]
    >>> with_background(probs, known).lower
    array([[0.25, 0.05]])
    >>> with_background(probs, known, "average").lower
    array([[0.35, 0.15]])
    """
    if networks not in ("box", "average"):
        raise ValueError(f"networks is {networks!r}; it is 'box' or 'average'")
    p = torch.as_tensor(probs, dtype=torch.float64)
    k = torch.as_tensor(known, dtype=torch.float64).unsqueeze(-1)
    if p.shape[:-1] != k.shape[:-1]:
        raise ValueError(
            f"probs has shape {tuple(p.shape)}, known {tuple(k.shape[:-1])}; give one number per member"
        )
    _check_probs(p, "probs")
    if not ((k >= 0) & (k <= 1)).all():
        raise ValueError("known has numbers that are no probabilities; give what `Background.known` says")
    if networks == "average":
        p, k = (k * p).mean(-2, keepdim=True), k.mean(-2, keepdim=True)
        low, high = p.squeeze(-2), (p + (1 - k)).squeeze(-2)
    else:
        low, high = (k * p).amin(-2), (k * p + (1 - k)).amax(-2)
    high = torch.maximum(low, high).clamp_max(1.0)  # where k = 1, rounding may cross them
    ends = (low, high) if isinstance(probs, Tensor) else (low.numpy(), high.numpy())
    return IntervalCredalSet(*ends)


def _normals(z: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What whitens features within classes, and the means of the classes there."""
    center, deviation = z.mean(0), z.std(0)
    # What never moves says nothing of these rows, but that it moves says much of others.
    usual = deviation[deviation > 0].mean() if (deviation > 0).any() else torch.ones((), dtype=z.dtype)
    scale = torch.where(deviation > 0, deviation, usual)
    x = (z - center) / scale
    hot = torch.nn.functional.one_hot(labels).to(x)
    means = (hot.T @ x) / hot.sum(0).clamp_min(1).unsqueeze(1)
    rest = x - means[labels]
    values, vectors = torch.linalg.eigh(rest.T @ rest / len(x))
    whiten = vectors / (values.clamp_min(0) + RIDGE).sqrt()
    return center, whiten / scale.unsqueeze(1), means[hot.sum(0) > 0] @ whiten


def _probs(given: ArrayLike | None, name: str, rows: int) -> Tensor:
    """(rows, J) in float64, checked."""
    p = torch.as_tensor(given, dtype=torch.float64).detach()
    if p.ndim != 2 or len(p) != rows:
        raise ValueError(f"{name} has shape {tuple(p.shape)}; give (rows, classes) of the {rows} rows")
    _check_probs(p, name)
    return p


def _check_probs(p: Tensor, name: str) -> None:
    if not ((p >= 0).all() and (p.sum(-1) - 1).abs().max() < 1e-3):
        raise ValueError(f"{name} has rows that are no probabilities; give softmax(logits)")


def _are_tensors(given: Views) -> bool:
    first = given[0] if isinstance(given, list | tuple) else given
    return isinstance(first, Tensor)


def _views(given: Views, name: str, widths: tuple[int, ...] | None = None) -> list[Tensor]:
    """One float64 matrix per layer, checked."""
    several = list(given) if isinstance(given, list | tuple) and np.ndim(given[0]) == 2 else [given]
    views = [torch.as_tensor(z, dtype=torch.float64).detach() for z in several]
    shapes = [tuple(z.shape) for z in views]
    if any(z.ndim != 2 or len(z) != len(views[0]) or not len(z) for z in views):
        raise ValueError(f"{name} has shapes {shapes}; give (rows, features), or one such matrix per layer")
    if widths is not None and tuple(z.shape[1] for z in views) != widths:
        raise ValueError(
            f"{name} has shapes {shapes}; the layers of the training rows have {widths} features"
        )
    for z in views:
        if not torch.isfinite(z).all():
            row = int((~torch.isfinite(z)).any(1).nonzero()[0, 0])
            raise ValueError(f"{name}[{row}] is not finite; leave such rows out")
    return views
