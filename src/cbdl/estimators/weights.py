"""What scikit-learn gives beside plain arrays: weights of rows and of classes, and masks."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

Floats: TypeAlias = NDArray[np.float64]


def check_unmasked(**arrays: Any) -> None:
    """A ValueError where a value is behind a mask, which scikit-learn takes for known."""
    for name, array in arrays.items():
        if np.ma.is_masked(array):
            at = np.argwhere(np.ma.getmaskarray(array))[0].tolist()
            raise ValueError(f"{name}{at} is masked; remove the row or impute the value")


def sample_weights(given: Any, rows: int) -> Floats | None:
    """Weights (rows,) that are not negative and not all 0; None if none were given."""
    if given is None:
        return None
    if isinstance(given, numbers.Number):
        given = np.full(rows, given)
    w: Floats = check_array(given, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if w.shape != (rows,):
        raise ValueError(f"sample_weight has shape {w.shape}; it must be one number per row: ({rows},)")
    if (w < 0).any():
        at = int(np.flatnonzero(w < 0)[0])
        raise ValueError(f"sample_weight[{at}] is {w[at]:g}; a weight is at least 0")
    if not w.any():
        raise ValueError("sample_weight is zero for every row; there is nothing to learn from")
    return w


def class_weights(given: Any, classes: NDArray[Any], labels: NDArray[Any], weights: Floats | None) -> Floats:
    """`weights` (rows,) times the weight of each row's class; `labels` are places in `classes`.

    "balanced" gives every class the same total weight and leaves the sum of all weights as it is.
    """
    own = np.ones(len(labels)) if weights is None else weights
    if isinstance(given, str):
        if given != "balanced":
            raise ValueError(f'class_weight is {given!r}; give a mapping of labels to weights, or "balanced"')
        totals = np.bincount(labels, own, len(classes))
        share = totals.sum() / (np.count_nonzero(totals) * np.where(totals > 0, totals, np.inf))
        return np.asarray(own * share[labels], dtype=np.float64)
    if not isinstance(given, Mapping):
        raise ValueError(f'class_weight is {given!r}; give a mapping of labels to weights, or "balanced"')
    unknown = [label for label in given if label not in classes.tolist()]
    if unknown:
        raise ValueError(f"class_weight names {unknown[0]!r}; the classes are {classes.tolist()}")
    share = np.array([float(given.get(label, 1.0)) for label in classes.tolist()])
    if not (np.isfinite(share).all() and (share >= 0).all()):
        raise ValueError(f"class_weight is {dict(given)}; weights are finite and at least 0")
    return np.asarray(own * share[labels], dtype=np.float64)


def merged(X: Floats, y: NDArray[Any], weights: Floats | None) -> tuple[Floats, NDArray[Any], Floats | None]:
    """The rows with their weights, equal rows as one with the sum of their weights; rows without weight left out.

    A row of weight 2 and the same row twice are then the same data, to the last bit. Rows that are all different, and
    count equally, stay as they are.
    """
    if weights is not None:
        keep = weights > 0
        X, y, weights = X[keep], y[keep], weights[keep]
    if weights is not None and (weights == 1).all():
        weights = None
    whole = np.column_stack([X, y])
    rows, first, place = np.unique(whole, axis=0, return_index=True, return_inverse=True)
    if weights is None and len(rows) == len(whole):
        return X, y, None
    own = np.bincount(place.reshape(-1), weights, len(rows)).astype(np.float64)
    return X[first], y[first], None if (own == 1).all() else own
