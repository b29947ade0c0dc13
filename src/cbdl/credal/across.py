"""Distances between Normals of different dimensions (paper, appendix "dist_diff_dim"; Cai and Lim, 2022).

Let P live on R^m and P' on R^n, m <= n. A map x -> V x + b with V V^T = I_m takes R^n to R^m. There are two
ways to compare: *project* P' to R^m by the best such map, or *embed* P as the best alpha on R^n that some
such map takes to P. The shift b frees the means, so only the covariances matter. For Normals both are
closed forms: the eigenvalues of V S V^T are exactly the sequences that interlace those of S (Cauchy; Fan
and Pall), so every eigenvalue of the smaller covariance is compared with the nearest point of one interval.
Cai and Lim prove that both ways agree; here each is computed by its own route.

The paper asks for convex f with "f(0) = 1" and writes "div_f(P || P')" under the infimum over alpha in lemmas
"dist_lemma2" and "dist_lemma3"; f(1) = 0 and div_f(alpha || P') are meant, and are what is computed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from cbdl.credal._border import Array, ArrayLike, Border, border_of, check_finite, check_shape, first, float64

Kind = Literal["w2", "kl", "reverse-kl", "hellinger"]
KINDS = ("w2", "kl", "reverse-kl", "hellinger")


@dataclass(frozen=True)
class Across:
    """A distance across dimensions and where it is attained.

    value:    (...,) the distance
    rotation: (..., m, n) V, with orthonormal rows
    shift:    (..., m) b
    loc, cov: the Normal that attains it: the projected one on R^m, or the embedded one on R^n
    """

    value: Array
    rotation: Array
    shift: Array
    loc: Array
    cov: Array


@dataclass(frozen=True)
class Infimum:
    """The distance of a finite set of Normals to one: the least value, its index, and all values.

    value: (...,); index: (...,); values: (..., k), one for each element
    """

    value: Array
    index: Array
    values: Array


def projection_distance(
    loc: ArrayLike, cov: ArrayLike, target_loc: ArrayLike, target_cov: ArrayLike, kind: Kind = "w2"
) -> Across:
    """The distance of two Normals after the higher-dimensional one is projected as well as possible.

    min over V V^T = I_m, b of d(P, V P' + b); with all eigenvalues descending and g the same distance on
    the line,

        sum_i g(s_i, clip(s_i, l_{i+n-m}, l_i)),    s = eig(S) (m of them), l = eig(S') (n of them).

    loc (..., d), cov (..., d, d), target_loc (..., e), target_cov (..., e, e), broadcast; d and e in any
    order. "w2" is symmetric and allows singular covariances; "kl" is KL(first || second), "reverse-kl"
    KL(second || first), "hellinger" is sqrt(1 - integral sqrt(p p')). Paper: W^- and div^- of lemma
    "dist_lemma3".

    - `kind`: "w2", "kl", "reverse-kl" or "hellinger"

    >>> import numpy as np
    >>> one = np.zeros(1), np.array([[9.0]])
    >>> two = np.zeros(2), np.diag([4.0, 1.0])
    >>> float(projection_distance(*one, *two).value)
    1.0
    """
    pair = _pair(loc, cov, target_loc, target_cov, kind)
    beta = _clip(pair.small, pair.large)
    rotation = pair.small_basis @ _compression(pair.large, beta) @ pair.large_basis.mT
    covariance = (pair.small_basis * beta[..., None, :]) @ pair.small_basis.mT
    shift = pair.small_loc - (rotation @ pair.large_loc[..., None])[..., 0]
    return pair.across(pair.small, beta, rotation, shift, pair.small_loc.expand(beta.shape), covariance)


def embedding_distance(
    loc: ArrayLike, cov: ArrayLike, target_loc: ArrayLike, target_cov: ArrayLike, kind: Kind = "w2"
) -> Across:
    """The distance of two Normals after the lower-dimensional one is embedded as well as possible.

    min over alpha on R^n with V alpha + b = P for some V V^T = I_m, b, of d(alpha, P'). The best alpha
    shares the mean and the eigenvectors of P'; its eigenvalues are those nearest to l that the s can
    interlace,

        c_k = clip(l_k, s_k, s_{k-(n-m)}),   s_k = 0 for k > m, s_k = infinity for k < 1.

    Shapes, kinds as in `projection_distance`, to which it is equal. Paper: W^+ and div^+ of lemma
    "dist_lemma2".

    - `loc`: (..., d)
    - `cov`: (..., d, d)
    - `target_loc`: (..., e)
    - `target_cov`: (..., e, e)
    - `kind`: "w2", "kl", "reverse-kl" or "hellinger"
    """
    pair = _pair(loc, cov, target_loc, target_cov, kind)
    extra = pair.large.shape[-1] - pair.small.shape[-1]
    batch = pair.small.shape[:-1]
    least = torch.cat([pair.small, pair.small.new_zeros(*batch, extra)], -1)
    most = torch.cat([pair.small.new_full((*batch, extra), torch.inf), pair.small], -1)
    spectrum = torch.minimum(torch.maximum(pair.large, least), most)
    rotation = pair.small_basis @ _compression(spectrum, pair.small) @ pair.large_basis.mT
    covariance = (pair.large_basis * spectrum[..., None, :]) @ pair.large_basis.mT
    shift = pair.small_loc - (rotation @ pair.large_loc[..., None])[..., 0]
    return pair.across(
        spectrum, pair.large, rotation, shift, pair.large_loc.expand(spectrum.shape), covariance
    )


def set_distance(
    loc: ArrayLike, cov: ArrayLike, target_loc: ArrayLike, target_cov: ArrayLike, kind: Kind = "w2"
) -> Infimum:
    """The least distance from k Normals to one of another dimension, and the element that attains it.

    inf over P in {P_1, ..., P_k} of d(P, P'); loc (..., k, d), cov (..., k, d, d), target_loc (..., e),
    target_cov (..., e, e). "kl" is KL(P || P'). By definition of an infimum it is at most the distance of any
    element: lemmas "dist_lemma2" (d <= e) and "dist_lemma3" (d >= e).

    - `kind`: "w2", "kl", "reverse-kl" or "hellinger"
    """
    border = border_of(loc, cov, target_loc, target_cov)
    elements, target = float64(cov, "cov"), float64(target_cov, "target_cov")
    check_shape(elements, "cov", "k d d")
    centre = float64(target_loc, "target_loc")
    check_shape(centre, "target_loc", "e")
    check_shape(target, "target_cov", "e e")
    pair = _pair(float64(loc, "loc"), elements, centre[..., None, :], target[..., None, :, :], kind)
    values = pair.measure(pair.small, _clip(pair.small, pair.large))
    value, index = values.min(-1)
    return Infimum(border.out(value), border.out(index), border.out(values))


# --- eigenvalues --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pair:
    """Both Normals in their eigenbases, eigenvalues descending; `small` is the one of lower dimension."""

    small: Tensor
    small_basis: Tensor
    small_loc: Tensor
    large: Tensor
    large_basis: Tensor
    large_loc: Tensor
    swapped: bool
    kind: Kind
    border: Border

    def measure(self, left: Tensor, right: Tensor) -> Tensor:
        """The distance of two Normals with equal means and eigenvectors, `left` on the side of the small
        one.
        """
        return _spectral(right, left, self.kind) if self.swapped else _spectral(left, right, self.kind)

    def across(
        self, left: Tensor, right: Tensor, rotation: Tensor, shift: Tensor, loc: Tensor, cov: Tensor
    ) -> Across:
        out = self.border.out
        return Across(out(self.measure(left, right)), out(rotation), out(shift), out(loc), out(cov))


def _pair(loc: ArrayLike, cov: ArrayLike, target_loc: ArrayLike, target_cov: ArrayLike, kind: Kind) -> _Pair:
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; give one of {', '.join(KINDS)}")
    border = border_of(loc, cov, target_loc, target_cov)
    definite = kind != "w2"
    first_one = _normal(float64(loc, "loc"), float64(cov, "cov"), "loc", "cov", definite)
    second = _normal(
        float64(target_loc, "target_loc"),
        float64(target_cov, "target_cov"),
        "target_loc",
        "target_cov",
        definite,
    )
    swapped = first_one[0].shape[-1] > second[0].shape[-1]
    small, large = (second, first_one) if swapped else (first_one, second)
    try:
        batch = np.broadcast_shapes(small[0].shape[:-1], large[0].shape[:-1])
    except ValueError:
        raise ValueError(
            f"cov and target_cov have batch shapes {tuple(first_one[0].shape[:-1])} and "
            f"{tuple(second[0].shape[:-1])}, which do not broadcast; give one batch shape"
        ) from None
    m, n = small[0].shape[-1], large[0].shape[-1]
    return _Pair(
        small[0].expand(*batch, m), small[1].expand(*batch, m, m), small[2].expand(*batch, m),
        large[0].expand(*batch, n), large[1].expand(*batch, n, n), large[2].expand(*batch, n),
        swapped, kind, border,
    )  # fmt: skip


def _normal(loc: Tensor, cov: Tensor, loc_name: str, cov_name: str, definite: bool) -> tuple[Tensor, ...]:
    """Checked; eigenvalues descending, eigenvectors as columns, mean: all of one batch shape."""
    check_shape(loc, loc_name, "d")
    check_finite(loc, loc_name)
    check_shape(cov, cov_name, "d d")
    check_finite(cov, cov_name)
    d = loc.shape[-1]
    if cov.shape[-2:] != (d, d):
        raise ValueError(
            f"{cov_name} has shape {tuple(cov.shape)}, {loc_name} {tuple(loc.shape)}; a mean of {d} numbers "
            f"needs a covariance (..., {d}, {d})"
        )
    size = cov.abs().amax((-2, -1), keepdim=True)
    skew = (cov - cov.mT).abs() > 1e-6 * size
    if skew.any():
        raise ValueError(f"{cov_name}{list(first(skew))} differs from its mirror; give symmetric matrices")
    values, vectors = torch.linalg.eigh((cov + cov.mT) / 2)
    values, vectors = values.flip(-1), vectors.flip(-1)
    slack = 1e-12 * values.abs().amax(-1, keepdim=True)
    bad = values <= slack if definite else values < -slack
    if bad.any():
        at = first(bad)
        wanted = "positive for this kind (w2 allows singular ones)" if definite else "at least 0"
        raise ValueError(
            f"{cov_name}{list(at[:-1])} has the eigenvalue {values[at].item():g}; all must be {wanted}: "
            "add a small multiple of the identity"
        )
    batch = np.broadcast_shapes(values.shape[:-1], loc.shape[:-1])
    values = values.clamp(min=0).expand(*batch, d)
    return values, vectors.expand(*batch, d, d), loc.expand(*batch, d)


def _clip(small: Tensor, large: Tensor) -> Tensor:
    """The eigenvalues nearest to `small` (..., m) that a compression of `large` (..., n) can have."""
    m, n = small.shape[-1], large.shape[-1]
    return torch.minimum(torch.maximum(small, large[..., n - m :]), large[..., :m])


def _spectral(p: Tensor, q: Tensor, kind: Kind) -> Tensor:
    """The distance of Normals with equal means and eigenvectors, from their eigenvalues (..., d)."""
    if kind == "w2":
        return (p.sqrt() - q.sqrt()).square().sum(-1).sqrt()
    if kind == "hellinger":
        root = p.sqrt() * q.sqrt()
        affinity = ((p.sqrt() - q.sqrt()).square() / (2 * root)).log1p().sum(-1) / -2
        return (-torch.expm1(affinity)).clamp(min=0).sqrt()
    excess = (p - q) / q if kind == "kl" else (q - p) / p
    return (excess - excess.log1p()).clamp(min=0).sum(-1) / 2


# --- the rotation that attains them -------------------------------------------------------------


def _compression(spectrum: Tensor, wanted: Tensor) -> Tensor:
    """V (..., m, n) with orthonormal rows and V diag(spectrum) V^T = diag(wanted), for interlacing `wanted`.

    Fan and Pall's theorem by construction, one dimension at a time: between n and n - 1 dimensions, the
    unit vector to leave out is known in closed form (Loewner), and every factor of it lies in [0, 1].
    """
    m = wanted.shape[-1]
    rows = torch.eye(spectrum.shape[-1], dtype=spectrum.dtype, device=spectrum.device)
    rows = rows.expand(*spectrum.shape, spectrum.shape[-1])
    while (n := spectrum.shape[-1]) > m:
        below = torch.cat([wanted, wanted.new_zeros(*wanted.shape[:-1], n - 1 - m)], -1)
        above = torch.cat([wanted.new_full((*wanted.shape[:-1], n - 1 - m), torch.inf), wanted], -1)
        least = torch.maximum(spectrum[..., 1:], below)
        most = torch.minimum(spectrum[..., :-1], above)
        middle = (least + torch.maximum(most, least)) / 2
        basis = _complement(_left_out(spectrum, middle))
        compressed = basis @ (spectrum[..., :, None] * basis.mT)
        turned = torch.linalg.eigh((compressed + compressed.mT) / 2)[1].flip(-1)
        rows = turned.mT @ basis @ rows
        spectrum = middle
    return rows


def _left_out(spectrum: Tensor, middle: Tensor) -> Tensor:
    """The unit vector u (..., n) such that diag(spectrum), restricted to the complement of u, has
    eigenvalues `middle`.

    u_i^2 = prod_{j < i} (l_i - mu_j) / (l_i - l_j)  prod_{j >= i} (l_i - mu_j) / (l_i - l_{j+1}).
    """
    n = spectrum.shape[-1]
    difference = (spectrum[..., :, None] - middle[..., None, :]).abs()
    i, j = torch.arange(n, device=spectrum.device)[:, None], torch.arange(n - 1, device=spectrum.device)
    earlier = j < i
    other = torch.where(earlier, spectrum[..., None, :-1], spectrum[..., None, 1:])
    whole = (spectrum[..., :, None] - other).abs()
    # Equal eigenvalues leave a choice: the last of them takes the whole weight.
    ratio = torch.where(
        whole > 0, difference / whole.clamp(min=torch.finfo(whole.dtype).tiny), earlier.to(whole)
    )
    square = ratio.clamp(max=1).log().sum(-1)
    weight = (square - square.amax(-1, keepdim=True)).exp().sqrt()
    return weight / weight.square().sum(-1, keepdim=True).sqrt()


def _complement(u: Tensor) -> Tensor:
    """(..., n - 1, n): an orthonormal basis of the complement of the unit vector u, by one reflection."""
    n = u.shape[-1]
    identity = torch.eye(n, dtype=u.dtype, device=u.device)
    # The reflection that takes u to the last axis; u is non-negative, so u + e_n does not cancel.
    v = u + identity[-1]
    reflection = identity - 2 * v[..., :, None] * v[..., None, :] / v.square().sum(-1)[..., None, None]
    return reflection[..., :-1, :]
