"""Between users and networks: words become numbers, inputs get the units of the training, classes their names again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from cbdl.bayes.data import TrainingData, as_input, prepare
from cbdl.bayes.learned import Learned
from cbdl.bayes.named import by_number
from cbdl.credal import CategoricalCredalSet, CredalSet
from cbdl.ground.labels import numbers_of

Space: TypeAlias = Literal["classes", "real", "counts"]


@dataclass(frozen=True)
class Border:
    """What is predicted, what classes are called, and where networks are evaluated."""

    space: Space
    labels: tuple[str, ...] | None
    device: torch.device
    dtype: torch.dtype

    def training(self, X: Any, y: Any, *, validation: Any = None, **settings: Any) -> TrainingData:
        """Rows to learn from; `settings` are those of `cbdl.bayes.data.prepare`."""
        if self.space == "classes":
            y = numbers_of(y, self.labels)
            if isinstance(validation, tuple | list) and len(validation) == 2:
                validation = (validation[0], numbers_of(validation[1], self.labels, "validation y"))
            elif validation is not None:
                validation = by_number(validation, None, self.labels)[0]
        return prepare(
            X, y, space=self.space, validation=validation, device=self.device, dtype=self.dtype, **settings
        )

    def more(self, X: Any, y: Any, learned: Learned) -> TrainingData:
        """Further rows, in the units that were learned from."""
        if self.space == "classes":
            X, y, _ = by_number(X, y, self.labels)
        data = self.training(X, y, standardize=False, tokens=learned.integers)
        # the units may be finer than the networks
        return data.in_units(
            *(unit.to(self.device, self.dtype) for unit in (learned.inputs, learned.targets))
        )

    def inputs(self, X: Any, learned: Learned) -> Tensor:
        """Rows to answer, in the units that were learned from."""
        unit = learned.inputs.loc.dtype  # that of the training, which may be finer than that of the networks
        x = as_input(X, unit, learned.integers).to(self.device)
        if tuple(x.shape[1:]) != learned.row:
            raise ValueError(
                f"X has rows of shape {tuple(x.shape[1:])}; the model was trained on {learned.row}"
            )
        if not len(x):
            raise ValueError("X has 0 rows; give at least one input")
        x = learned.inputs(x)
        return x.to(self.dtype) if x.is_floating_point() else x

    def named(self, credal: CredalSet) -> CredalSet:
        """A prediction that knows what its classes are called; outputs without a label keep their number."""
        if self.labels is None or not isinstance(credal, CategoricalCredalSet):
            return credal
        rest = range(len(self.labels), credal.num_classes)
        return credal.with_labels([*self.labels, *(f"class {j}" for j in rest)])
