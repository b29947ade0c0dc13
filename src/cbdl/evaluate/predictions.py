"""What is evaluated: a credal set, plain arrays of probabilities, or a file that either was saved to.

A file is an .npz of the numbers that make the set (no code in it) and, if they are known, the outcomes `y`.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from cbdl.credal import (
    Array,
    ArrayLike,
    CategoricalCredalSet,
    CredalSet,
    DiagonalNormalCredalSet,
    IntervalCredalSet,
    MixtureCredalSet,
    NormalCredalSet,
)
from cbdl.ground import files
from cbdl.ground.labels import numbers_of

Predicted: TypeAlias = "CredalSet | ArrayLike | str | Path"
"""A credal set; probabilities (n, J) or of m members (n, m, J); the path of a file that `save` wrote."""

KINDS: dict[str, tuple[type[CredalSet], tuple[str, ...]]] = {
    "classes": (CategoricalCredalSet, ("probs",)),
    "interval": (IntervalCredalSet, ("lower", "upper")),
    "normal": (NormalCredalSet, ("loc", "scale")),
    "mixture": (MixtureCredalSet, ("loc", "scale", "weights")),
    "diagonal": (DiagonalNormalCredalSet, ("loc", "scale")),
}


@dataclass(frozen=True)
class Saved:
    """What a file holds: the predictions, and the outcomes if they were saved too.

    - `prediction`: a credal set
    - `y`: outcomes (n,), or None
    """

    prediction: CredalSet
    y: npt.NDArray[Any] | None


def prediction_of(given: Predicted) -> CredalSet:
    """The credal set that was given, in whatever form."""
    if isinstance(given, CredalSet):
        return given
    if isinstance(given, str | Path):
        return load(given).prediction
    probs = np.asarray(given.detach().cpu() if isinstance(given, torch.Tensor) else given)
    if probs.ndim not in (2, 3):
        raise ValueError(
            f"predictions have shape {probs.shape}; give probabilities (n, J), or of m members (n, m, J), a "
            "credal set, or the path of a saved file"
        )
    return CategoricalCredalSet(probs[:, None] if probs.ndim == 2 else probs)


def with_outcomes(given: Predicted, y: ArrayLike | None) -> tuple[CredalSet, ArrayLike]:
    """The credal set that was given, and its outcomes as numbers: `y`, or those of the file."""
    if not isinstance(given, str | Path):
        credal, where = prediction_of(given), "only a file of predictions may hold them"
    else:
        saved = load(given)
        credal, y = saved.prediction, saved.y if y is None else y
        where = f"{given} holds none, which `save(path, prediction, y)` would have kept"
    if y is None:
        raise ValueError(f"y is not given: give the outcomes, one for each row; {where}")
    return credal, numbers_of(y, credal.labels)


def save(path: str | Path, prediction: Predicted, y: ArrayLike | None = None) -> None:
    """Predictions, and outcomes if given, as an .npz file that appears whole or not at all.

    - `path`: of the file
    - `prediction`: a credal set, probabilities (n, J) or (n, m, J), or the path of a saved file
    - `y`: outcomes (n,), in words where the classes have names, or None

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/answers.npz"
    >>> save(path, np.array([[0.7, 0.3], [0.5, 0.5]]), [0, 1])
    >>> load(path).y.tolist()
    [0, 1]
    """
    credal = prediction_of(prediction)
    names = [name for name, (kind, _) in KINDS.items() if type(credal) is kind]
    if not names:
        raise ValueError(f"{type(credal).__name__} has no file format; save one of {', '.join(KINDS)}")
    arrays = {field: _numpy(getattr(credal, field)) for field in KINDS[names[0]][1]}
    if y is not None:
        arrays["y"] = _numpy(numbers_of(y, credal.labels))
        if arrays["y"].shape[: len(credal.batch_shape)] != tuple(credal.batch_shape):
            raise ValueError(
                f"y has shape {arrays['y'].shape}; give one outcome for each of the {tuple(credal.batch_shape)} rows"
            )
    if credal.labels is not None:
        arrays["labels"] = np.array(credal.labels)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, kind=np.array(names[0]), **arrays)  # type: ignore[arg-type]
    files.write(Path(path), buffer.getvalue())


def load(path: str | Path) -> Saved:
    """What `save` wrote; also any .npz with `probs`, `lower` and `upper`, or `loc` and `scale`.

    - `path`: of the file

    >>> import tempfile
    >>> import cbdl
    >>> file = tempfile.mkdtemp() + "/answers.npz"
    >>> save(file, cbdl.CategoricalCredalSet([[[0.7, 0.3], [0.4, 0.6]]]), [0])
    >>> load(file).prediction, load(file).y
    (CategoricalCredalSet(batch_shape=(1,), num_extremes=2, num_classes=2), array([0]))
    """
    path = Path(path)
    try:
        # of a damaged file NumPy would leave open what it opened
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
            arrays = dict(stored)
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is not a file of predictions (.npz): {error}") from None
    kind = str(np.squeeze(arrays.pop("kind", _guess(arrays))))
    if kind not in KINDS:
        raise ValueError(f"{path} holds {sorted(arrays)}; it needs the fields of one of {', '.join(KINDS)}")
    cls, fields = KINDS[kind]
    missing = [field for field in fields if field not in arrays]
    if missing:
        raise ValueError(f"{path} is of kind {kind!r} and has no {', '.join(missing)}")
    numbers = [arrays[field] for field in fields]
    credal = prediction_of(numbers[0]) if kind == "classes" and numbers[0].ndim == 2 else cls(*numbers)
    labels = arrays.get("labels")
    return Saved(credal if labels is None else credal.with_labels(labels.tolist()), arrays.get("y"))


def _guess(arrays: dict[str, npt.NDArray[Any]]) -> str:
    """The kind of a file that does not say it: the one with most of the fields that are there."""
    fit = [(len(fields), name) for name, (_, fields) in KINDS.items() if set(fields) <= set(arrays)]
    # normal and diagonal have the same fields; on the line is the usual case
    return max(fit, key=lambda one: one[0])[1] if fit else ""


def _numpy(x: Array) -> npt.NDArray[Any]:
    return np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x)


def point_probabilities(credal: CredalSet) -> npt.NDArray[np.float64]:
    """(n, J): the one distribution that stands for each set of classes: the mean of a hull, the intersection
    probability of a box."""
    if not isinstance(credal, CategoricalCredalSet | IntervalCredalSet):
        raise ValueError(f"{type(credal).__name__} is not over classes; this score needs classes")
    p = _numpy(credal.center())
    if p.ndim != 2:
        raise ValueError(f"predictions have the batch shape {credal.batch_shape}; give one set per row, (n,)")
    return p


def checked_probabilities(p: ArrayLike) -> npt.NDArray[np.float64]:
    """(n, J): probabilities, checked."""
    probs = np.asarray(_numpy(p) if isinstance(p, torch.Tensor) else p)
    if probs.ndim != 2:
        raise ValueError(f"p has shape {probs.shape}; give probabilities (n, J)")
    return point_probabilities(prediction_of(probs))


def class_labels(y: ArrayLike, rows: int, classes: int) -> npt.NDArray[np.int64]:
    """(n,): labels, checked."""
    labels = _numpy(y)
    if labels.shape != (rows,):
        raise ValueError(f"y has shape {labels.shape}; give one label for each of the {rows} rows")
    bad = ~((labels >= 0) & (labels < classes) & (labels == np.floor(labels)))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise ValueError(f"y[{at}] is {labels[at]}; labels are whole numbers from 0 to {classes - 1}")
    return labels.astype(np.int64)
