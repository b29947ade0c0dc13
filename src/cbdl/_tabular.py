"""What lies between a scientist's table and `CBDL`: weights of rows, networks of given widths, a warm start."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array
from torch import Tensor, nn

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import TrainingData
from cbdl.bayes.likelihoods import Factory
from cbdl.bayes.methods.protocol import Method, Posterior
from cbdl.bayes.train import Run
from cbdl.nets import mlp
from cbdl.prediction import Learned

Floats: TypeAlias = NDArray[np.float64]
Architecture: TypeAlias = Sequence[int] | Callable[[int, int], nn.Module]
"""The widths of the hidden layers, or a function (inputs, outputs) -> network."""


# --- weights --------------------------------------------------------------------------------------------------


def sample_weights(given: Any, rows: int) -> Floats | None:
    """Weights (rows,) that are not negative and not all 0; None if none were given."""
    if given is None:
        return None
    if isinstance(given, numbers.Number):
        given = np.full(rows, given)
    w: Floats = check_array(given, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if w.shape != (rows,):
        raise ValueError(f"sample_weight has shape {w.shape}; it must be one number a row: ({rows},)")
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


# --- networks -------------------------------------------------------------------------------------------------


def factories(given: Any, inputs: int, outputs: int, activation: str) -> list[Factory]:
    """One factory for each architecture."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not len(given):
        raise ValueError(
            f"architectures is {given!r}; give one or more networks, each by the widths of its hidden layers: "
            "[(32,), (16, 16)]"
        )
    return [_factory(one, s, inputs, outputs, activation) for s, one in enumerate(given)]


def _factory(given: Any, s: int, inputs: int, outputs: int, activation: str) -> Factory:
    if callable(given):
        return functools.partial(given, inputs, outputs)
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ValueError(
            f"architectures[{s}] is {given!r}; give the widths of the hidden layers, as in (16, 16), or a "
            "function (inputs, outputs) -> network"
        )
    return cast(Factory, mlp(inputs, outputs, tuple(given), activation))


# --- warm start -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WarmStart(Method):
    """`method`, with every member starting at the network that `before` learned for the same (k, s)."""

    method: Method
    before: Learned = field(repr=False)

    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> Posterior:
        return self.method.fit(self._begun(cohort), data, run)

    def from_state(self, cohort: Cohort, state: Mapping[str, Tensor]) -> Posterior:
        return self.method.from_state(cohort, state)

    @property
    def temperature(self) -> float:
        return self.method.temperature

    def continuing(self) -> Method:
        return self.method.continuing()

    def _begun(self, cohort: Cohort) -> Cohort:
        initial, noise = cohort.initial.clone(), cohort.initial_noise.clone()
        buffers = {name: b.clone() for name, b in cohort.initial_buffers.items()}
        for old, posterior in self.before.parts:
            for i, known in enumerate(old.members):
                for j, member in enumerate(cohort.members):
                    if (member.k, member.s) != (known.k, known.s):
                        continue
                    _copy(initial[j], posterior.centre()[i], str(member))
                    _copy(noise[j], posterior.noise[i], str(member))
                    for name, b in posterior.buffers.items():
                        _copy(buffers[name][j], b[i], str(member))
        return replace(cohort, initial=initial, initial_noise=noise, initial_buffers=buffers)


def _copy(to: Tensor, value: Tensor, who: str) -> None:
    if to.shape != value.shape:
        raise ValueError(
            f"warm_start: the network of {who} had {value.numel()} parameters in the fit before, now it has "
            f"{to.numel()}; set warm_start=False to start again"
        )
    to.copy_(value)
