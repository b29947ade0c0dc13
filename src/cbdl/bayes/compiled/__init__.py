"""Potentials of small networks by compiled loops (numba): for samplers, which ask for thousands of gradients.

`Kernel.of` says whether loops exist for a cohort: stacks of Linear layers with the usual functions between them, on
the CPU and in single precision, with a likelihood that states its `rule`. Everything else is evaluated by tensor
operations (`cbdl.bayes.wide`), as is everything where numba is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cbdl.bayes.cohort import Cohort
from cbdl.bayes.likelihoods.rules import VARYING, Rule
from cbdl.bayes.passes import ALONE, WIDE, layers
from cbdl.bayes.rows import Batch
from cbdl.bayes.wide import Space, Stack
from cbdl.ground.compiling import spread, usable

Rows: TypeAlias = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
"""Inputs (rows, features), real outcomes (rows,), labels (rows,) and weights (1 or chains, rows)."""
LONG = 2000
"""Gradients that a run must have to be worth a second of loading."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """The NLL of rows under many networks, and its gradient, for one likelihood and one kind of network."""

    cohort: Cohort
    stack: Stack
    layers: NDArray[np.uint64]
    """(layers, 6): inputs, outputs, where weights begin, whether and where biases do, the function that follows."""
    rule: Rule
    space: Space
    _last: list[tuple[Batch, Rows]] = field(default_factory=list)

    @classmethod
    def of(cls, cohort: Cohort, space: Space) -> Kernel | None:
        """Loops for this cohort, whose place (chains, P + Q) they will be given; None if there are none."""
        stack, rule = cohort.forward.stack, cohort.likelihood.rule(cohort.unit)
        if stack is None or rule is None or cohort.initial.dtype != torch.float32:
            return None
        shape = layers(stack.steps, cohort.layout)
        fits = shape is not None and shape[:, :2].max() <= WIDE and cohort.initial.device.type == "cpu"
        if shape is None or not fits or not available():
            return None
        return cls(cohort, stack, shape, rule, space)

    def add(
        self, place: Tensor, batch: Batch, factor: float, value: Tensor, slope: Tensor, *, patient: bool
    ) -> None:
        """Add factor * NLL of the batch to `value` (chains,), and its gradient to `slope` (chains, P + Q).

        `patient`: rows count as in the beginning of an optimisation (`Cohort.patience`).
        """
        from . import loops

        rows, chains = self._rows(batch), len(place)
        at, gradient, number = place.numpy(), slope.numpy(), np.float32(self.rule.number)
        total, variances = np.zeros(chains), np.zeros(chains)

        def some(first: int, last: int) -> None:
            if patient and self.rule.kind == VARYING:
                loops.mean_variances(at, first, last, self.layers, rows[0], number, variances)
            rule = self.rule.kind, number
            loops.add(
                at, first, last, self.layers, *rule, *rows, np.float32(factor), variances, total, gradient
            )

        spread(some, chains, chains * len(rows[0]) * self.cohort.layout.size >= ALONE)
        value += torch.from_numpy(total).to(value.dtype)

    def _rows(self, batch: Batch) -> Rows:
        """Of a batch; of the same one again they are made once."""
        if self._last and self._last[0][0] is batch:
            return self._last[0][1]
        if not batch.checked:  # of a stream: a label beyond the classes would be written beyond the memory
            self.cohort.likelihood.check(batch.y, whole=False)
            self.cohort.likelihood.check_outputs((int(self.layers[-1, 1]),), batch.y)
        x, weight = self.space.inputs(self.stack, batch.x).flatten(1), self.cohort.weights(batch)
        weight = weight.expand(len(x)).unsqueeze(0) if weight.ndim < 3 else weight[:, 0]
        real = batch.y.is_floating_point()
        y = batch.y.reshape(-1) if real else batch.y.new_empty(0, dtype=torch.float32)
        labels = batch.y.new_empty(0, dtype=torch.int64) if real else batch.y
        rows = _array(x), _array(y), _array(labels), _array(weight)
        self._last[:] = [(batch, rows)]
        return rows


def available() -> bool:
    """Whether numba is there and works with the numpy that is; it takes a moment to import."""
    return usable(f"{__name__}.loops")


def turn(direction: Tensor, slope: Tensor, time: Tensor) -> tuple[Tensor, Tensor]:
    """`cbdl.bayes.methods._microcanonical.turn` in single precision on the CPU, by loops."""
    from . import loops

    after, gain = torch.empty_like(direction), torch.empty_like(time)
    loops.turn(*(own.numpy() for own in (direction, slope, time, after, gain)))
    return after, gain


def _array(x: Tensor) -> NDArray[Any]:
    return x.contiguous().numpy()
