"""Background: what lies beyond the training rows belongs to some class, and nothing says to which.

A network that was trained on ten classes spreads probability over ten classes, whatever it is shown. Here its features
z (what its layers see) have a density: every class a Normal around its mean, with one covariance, and beside the
classes a background. With known(z) the probability that z is no background, and p the probabilities of the network,
the likelihood that labels the background as class k says

    p_k(y) = known(z) p(y) + (1 - known(z)) [y = k],    k = 1, ..., J.

The data hold no background, so that they prefer none of the J: all of them are kept, as the extremes of a credal set.
Among training rows it is nearly the one distribution p; far away it is every distribution there is. No training is
needed, only the features of rows whose classes are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cbdl.credal import Array, ArrayLike, IntervalCredalSet

ODDS = math.log(99.0)
"""Log odds of the classes against the background at the median of held-out rows."""


@dataclass(frozen=True, eq=False)
class Background:
    """Normals of the classes in whitened features, and the two log densities by which the background is set.

    center (D,), transform (D, d): what whitens features; means (J, d) of the classes, whitened; level: the log density
    at which classes and background are even; unit: the log density that makes a nat of their odds.
    """

    center: Tensor
    transform: Tensor
    means: Tensor
    level: float
    unit: float

    def log_density(self, features: ArrayLike) -> Array:
        """(n,): of features (n, D) under the likeliest class, up to a constant."""
        z = _matrix(features, "features", self.center.shape[0])
        value = _log_density(z, self.center, self.transform, self.means)
        return value if isinstance(features, Tensor) else value.numpy()

    def known(self, features: ArrayLike) -> Array:
        """(n,): the probability that a row is no background."""
        odds = (torch.as_tensor(self.log_density(features)) - self.level) / self.unit
        value = torch.sigmoid(odds)
        return value if isinstance(features, Tensor) else value.numpy()


def background(
    features: ArrayLike, y: ArrayLike, held_out: ArrayLike, share: float = 0.01, ridge: float = 1e-3
) -> Background:
    """The background of a network, from the features (N, D) of training rows, their labels (N,), and those of held-out
    rows (n, D).

    At the density that a `share` of the held-out rows fall short of, a row is as likely background as not; at their
    median the odds against it are 99 to 1. `ridge` is added to the variances of the standardised features.

    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(400) % 2
    >>> rows = rng.normal(size=(400, 3)) + 4 * y[:, None]
    >>> own = background(rows[:300], y[:300], rows[300:])
    >>> own.known(np.array([[0.0, 0, 0], [4, 4, 4], [9, -9, 0]])).round(2)
    array([1., 1., 0.])
    """
    if not 0 < share < 0.5:
        raise ValueError(
            f"share is {share}; it is the share of held-out rows below the level, between 0 and 0.5"
        )
    z = _matrix(features, "features")
    labels = torch.as_tensor(y).reshape(-1).long()
    if len(labels) != len(z):
        raise ValueError(f"y has {len(labels)} labels for {len(z)} rows of features; give one each")
    center, transform, means = _fitted(z, labels, ridge)
    own = _log_density(_matrix(held_out, "held_out", z.shape[1]), center, transform, means)
    level, middle = (float(torch.quantile(own, q)) for q in (share, 0.5))
    return Background(center, transform, means, level, max(middle - level, 1e-12) / ODDS)


def with_background(probs: ArrayLike, known: ArrayLike) -> IntervalCredalSet:
    """The box of all members' sets: probabilities (..., m, J), how known the row is to each member (..., m).

    Class y has at least the smallest known p(y), and at most the largest known p(y) + 1 - known.

    >>> with_background([[[0.9, 0.1]]], [[0.5]]).lower
    array([[0.45, 0.05]])
    """
    p, k = torch.as_tensor(probs).double(), torch.as_tensor(known).double().unsqueeze(-1)
    if p.shape[:-1] != k.shape[:-1]:
        raise ValueError(
            f"probs has shape {tuple(p.shape)}, known {tuple(k.shape[:-1])}; give one number per member"
        )
    low = (k * p).amin(-2)
    high = torch.maximum(low, (k * p + (1 - k)).amax(-2)).clamp_max(
        1.0
    )  # where k = 1, rounding may cross them
    ends = (low, high) if isinstance(probs, Tensor) else (low.numpy(), high.numpy())
    return IntervalCredalSet(*ends)


def _fitted(z: Tensor, labels: Tensor, ridge: float) -> tuple[Tensor, Tensor, Tensor]:
    """What whitens features within classes, and the means of the classes there."""
    center, deviation = z.mean(0), z.std(0)
    # What never moves says nothing of these rows, but that it moves says much of others.
    scale = torch.where(deviation > 0, deviation, deviation[deviation > 0].mean())
    x = (z - center) / scale
    hot = torch.nn.functional.one_hot(labels).to(x)
    means = (hot.T @ x) / hot.sum(0).clamp_min(1).unsqueeze(1)
    rest = x - means[labels]
    values, vectors = torch.linalg.eigh(rest.T @ rest / len(x))
    whiten = vectors / (values.clamp_min(0) + ridge).sqrt()
    return center, whiten / scale.unsqueeze(1), means[hot.sum(0) > 0] @ whiten


def _log_density(z: Tensor, center: Tensor, transform: Tensor, means: Tensor) -> Tensor:
    """Minus half the squared distance to the nearest mean."""
    return -0.5 * torch.cdist((z - center) @ transform, means).amin(1).square()


def _matrix(given: ArrayLike, name: str, columns: int | None = None) -> Tensor:
    z = torch.as_tensor(given).detach().double()
    if z.ndim != 2 or not len(z) or (columns is not None and z.shape[1] != columns):
        raise ValueError(f"{name} has shape {tuple(z.shape)}; give (rows, {columns or 'features'})")
    if not torch.isfinite(z).all():
        row = int((~torch.isfinite(z)).any(1).nonzero()[0, 0])
        raise ValueError(f"{name}[{row}] is not finite; leave such rows out")
    return z
