"""Credal sets as tables: a row per set with its answers, for data frames and for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cbdl.credal._border import Array
from cbdl.ground.shown import cell, html_table

if TYPE_CHECKING:
    from cbdl.credal.answers import Region
    from cbdl.credal.base import CredalSet

ROWS = 8
"""Sets, extremes or columns that a notebook shows at most."""


def answers(credal: CredalSet, alpha: float, method: str) -> dict[str, list[Any]]:
    """Column by column: the decision (the best class in the worst case, or the mean of the centre), the region, its
    size and its lower and upper probability, noise (aleatoric), ignorance (epistemic) and Monte Carlo floor in nats;
    for classes also the bounds of every one."""
    if len(credal.batch_shape) > 1:
        raise ValueError(
            f"this is a batch of shape {credal.batch_shape}; a table has one row per set: take a batch (n,)"
        )
    region, split = credal.region(alpha, method), credal.uncertainty()
    floor = credal.floor
    bounds, labels, batch = credal._class_bounds(), credal.labels, credal.batch_shape
    chosen = listed(
        credal.decide("maximin", single=True) if bounds else credal.mean().mean(len(batch)), batch
    )
    return {
        "decision": chosen if labels is None else [labels[int(j)] for j in chosen],
        **region.columns(),
        **bounds,
        "aleatoric": listed(split.aleatoric, batch),
        "epistemic": listed(split.epistemic, batch),
        "floor": [float("nan")] * len(chosen) if floor is None else listed(floor, batch),
    }


def listed(values: Array, batch: tuple[int, ...]) -> list[Any]:
    """One entry per set of a batch (n,) or () from answers (..., *rest): numbers, or lists of them."""
    array = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)
    own: list[Any] = array.reshape(-1 if batch else 1, *array.shape[len(batch) :]).tolist()
    return own


def bounds_by_class(lower: Array, upper: Array, labels: tuple[str, ...] | None) -> dict[str, list[Any]]:
    """Columns "lower:c" and "upper:c" of bounds (n, J) or (J,)."""
    low, high = (np.atleast_2d(np.asarray(torch.as_tensor(x).cpu())) for x in (lower, upper))
    names: Sequence[Any] = labels or range(low.shape[-1])
    bounds = {"lower": low, "upper": high}
    return {f"{side}:{c}": own[:, j].tolist() for j, c in enumerate(names) for side, own in bounds.items()}


def region_columns(region: Region, batch: tuple[int, ...]) -> dict[str, list[Any]]:
    """What all regions have: size, and lower and upper probability."""
    names = {
        "size": "measure",
        "lower_probability": "lower_probability",
        "upper_probability": "upper_probability",
    }
    return {name: listed(getattr(region, field), batch) for name, field in names.items()}


def region_words(region: Region) -> str:
    """One region in a line, or how many there are and how large they are.

    >>> from cbdl import NormalCredalSet
    >>> NormalCredalSet([-5.0, 5.0], [1.0, 1.0]).region(0.05, "minimal")
    LineRegion({[-6.96, -3.04], [3.04, 6.96]}, size 7.84, probability 0.95 to 0.95)
    """
    kind, batch = type(region).__name__, tuple(np.shape(region.measure))
    size, low, high = (
        np.asarray(torch.as_tensor(x).cpu(), dtype=np.float64)
        for x in (region.measure, region.lower_probability, region.upper_probability)
    )
    if batch:
        span = f"sizes {size.min():.4g} to {size.max():.4g}" if size.size else "empty"
        return f"{kind}(batch_shape={batch}, {span})"
    inside = region.columns().get("set", [None])[0]
    shown = "" if inside is None else f"{cell(inside)}, "
    return f"{kind}({shown}size {size:.4g}, probability {low:.4g} to {high:.4g})"


def region_html(region: Region) -> str:
    """The first regions of a batch, or the one that there is."""
    batch = tuple(np.shape(region.measure))
    title = f"{type(region).__name__}, {f'{batch[0]} sets' if batch else 'one set'}"
    if len(batch) > 1 or (batch and not batch[0]):
        return html_table(f"{type(region).__name__}(batch_shape={batch})", ["sets"], [[int(np.prod(batch))]])
    columns = (region[:ROWS] if batch else region).columns()
    rows = [[i, *row] for i, row in enumerate(zip(*columns.values(), strict=True))]
    more = [f"... {batch[0] - ROWS} more"] if batch and batch[0] > ROWS else []
    return html_table(title, ["row", *columns], rows, more)


def numbers_words(answer: object) -> str:
    """The numbers of one set, those of its elements if they are few; of a batch its shape, and between which values
    each of them lies.

    >>> from cbdl import CategoricalCredalSet
    >>> CategoricalCredalSet([[0.9, 0.1], [0.1, 0.9]]).uncertainty()  # doctest: +ELLIPSIS
    Uncertainty(total=0.6931, aleatoric=0.3251, epistemic=0.3681, epistemic_lower=..., gap=..., error=...)
    >>> CategoricalCredalSet([[[0.9, 0.1]], [[0.5, 0.5]]]).uncertainty()  # doctest: +ELLIPSIS
    Uncertainty(batch_shape=(2,), total=0.3251 to 0.6931, aleatoric=0.3251 to 0.6931, ...)
    """
    own = {name: np.asarray(torch.as_tensor(x).cpu(), dtype=np.float64) for name, x in vars(answer).items()}
    batch = min((x.shape for x in own.values()), key=len)
    few = {name for name, x in own.items() if not batch and x.ndim > 0 and x.size <= ROWS}
    spans = [
        f"{name}=[{', '.join(cell(v) for v in x.ravel().tolist())}]" if name in few else f"{name}={_span(x)}"
        for name, x in own.items()
    ]
    return f"{type(answer).__name__}({', '.join([f'batch_shape={batch}', *spans] if batch else spans)})"


def _span(values: npt.NDArray[np.float64]) -> str:
    """A number, or between which ones they lie."""
    known = values[~np.isnan(values)]
    if not known.size:
        return "none" if not values.size else "nan"
    least, most = f"{known.min():.4g}", f"{known.max():.4g}"
    return least if least == most else f"{least} to {most}"


def numbers_html(answer: object) -> str:
    """The fields of an answer that have a number per set, a row per set."""
    own = {name: np.asarray(torch.as_tensor(x).cpu(), dtype=np.float64) for name, x in vars(answer).items()}
    shape = min((x.shape for x in own.values()), key=len)
    if len(shape) > 1:
        return html_table(f"{type(answer).__name__}(batch_shape={shape})", ["sets"], [[int(np.prod(shape))]])
    flat = {name: x.reshape(-1)[:ROWS].tolist() for name, x in own.items() if x.shape == shape}
    rows = [[i, *row] for i, row in enumerate(zip(*flat.values(), strict=True))]
    more = [f"... {shape[0] - ROWS} more"] if shape and shape[0] > ROWS else []
    return html_table(
        type(answer).__name__, ["row", *flat], rows, [*more, "nats, unless another base was asked for"]
    )


def html(credal: CredalSet) -> str:
    """A batch by the answers of its first sets, a single set by its extremes."""
    batch = credal.batch_shape
    if len(batch) > 1 or (batch and not batch[0]):
        return html_table(repr(credal), ["sets"], [[int(np.prod(batch))]])
    if not batch:
        return _one(credal)
    alpha = 0.05
    columns = answers(credal[:ROWS], alpha, "union")
    names = [name for name in columns if ":" not in name]
    rows = zip(*(columns[name] for name in names), strict=True)
    more = [f"... {batch[0] - ROWS} more"] if batch[0] > ROWS else []
    return html_table(
        repr(credal),
        ["row", *names],
        [[i, *row] for i, row in enumerate(rows)],
        [
            *more,
            f"Regions hold {1 - alpha:.0%} under every distribution of the set; uncertainties are in nats.",
        ],
    )


def _one(credal: CredalSet) -> str:
    header, rows = credal._shown_extremes()
    split = credal.uncertainty()
    words = [f"aleatoric {float(split.aleatoric):.4g}", f"epistemic {float(split.epistemic):.4g}"]
    if credal.floor is not None:
        words.append(f"floor {float(credal.floor):.2g}")
    more = [f"... {len(rows) - ROWS} more"] if len(rows) > ROWS else []
    return html_table(repr(credal), header, rows[:ROWS], [*more, ", ".join(words) + " (nats)"])


def extremes(credal: CredalSet) -> tuple[list[str], list[list[Any]]]:
    """A header, and a row per extreme of a single set: who it is, its mean, its entropy."""
    who = [str(m) for m in credal.members or range(credal.num_extremes)]
    mean = np.asarray(torch.as_tensor(credal.mean()).cpu())
    entropy = listed(credal.entropies(), (1,))
    if mean.ndim == 1:
        return ["extreme", "mean", "entropy"], [
            list(row) for row in zip(who, mean.tolist(), entropy, strict=True)
        ]
    shown = mean[:, :ROWS]
    names = [str(name) for name in (credal.labels or range(mean.shape[1]))][:ROWS]
    cut = ["..."] if mean.shape[1] > ROWS else []
    rows = [[w, *own, *cut, h] for w, own, h in zip(who, shown.tolist(), entropy, strict=True)]
    return ["extreme", *names, *cut, "entropy"], rows
