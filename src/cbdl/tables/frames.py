"""Models that take the data frame they were trained from: what `cbdl.load` gives for a folder that `cbdl fit` wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from cbdl import model
from cbdl.model import CBDL
from cbdl.steps.missing import Choice
from cbdl.store import read_manifest
from cbdl.tables.columns import check_range
from cbdl.tables.encoding import Column, choices, encode_rows, from_json
from cbdl.tables.errors import TableError
from cbdl.tables.files import from_frame


@dataclass(frozen=True)
class TableInputs:
    """Data frames as the numbers that a model was trained with; nan where a value is missing or was never seen."""

    columns: tuple[Column, ...]
    meaning: Mapping[str, Any] = field(default_factory=dict)
    """What a saved model says of its table, whatever its networks have learned."""

    def array(self, X: Any, *, gaps: bool = False) -> Any:
        """The inputs as numbers; what is no data frame comes back as it is."""
        if isinstance(X, np.ndarray | Tensor | list | tuple | Dataset | DataLoader):
            return X
        frame = from_frame(X)
        # a table's names were read without the spaces around them
        rows = encode_rows(self.columns, {name.strip(): cell for name, cell in frame.items()} | frame)
        check_range(self.columns, rows.X)
        lost = np.argwhere(rows.missing | rows.unknown)
        if len(lost) and not gaps:
            row, at = (int(i) for i in lost[0])
            what = "was never seen in training" if rows.unknown[row, at] else "is missing"
            raise TableError(
                f"column {self.columns[at].name!r}, row {row + 1}: the value {what}; predict_missing answers with the "
                "hull over all that it could be"
            )
        return rows.X

    @property
    def choices(self) -> tuple[Choice, ...]:
        """What missing inputs could be."""
        return choices(self.columns)


def load(
    path: str | Path,
    nets: Sequence[Callable[[], nn.Module]] | None = None,
    *,
    device: torch.device | str = "cpu",
) -> CBDL:
    """The model in the folder `path`.

    Networks from `cbdl.nets` are rebuilt by name. A network of the user's own is not in the folder: give its factories
    as `nets`, one per likelihood, in order. A model that was trained from a table (`cbdl fit`) predicts for data frames
    with the columns of that table, and `predict_missing` for those with missing values and words never seen.

    - `device`: where networks are evaluated

    >>> import tempfile
    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> likelihoods = [cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, (4,)), scale=0.1)]
    >>> model = cbdl.CBDL([cbdl.priors.Normal(0, 1)], likelihoods, cbdl.MeanField(epochs=1), verbose=False)
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> model.fit(X, X[:, 0]).save(folder)
    >>> np.allclose(cbdl.load(folder).predict(X).mean(), model.predict(X).mean())
    True
    """
    loaded = model.load(path, nets, device=device)
    extra = read_manifest(path)["extra"]
    loaded.meaning = extra
    if isinstance(extra, dict) and "columns" in extra and "task" in extra:
        # levels and scores are those of the networks as they were
        table = {name: own for name, own in extra.items() if name not in ("conformity", "held_out")}
        loaded.encoder = TableInputs(from_json(extra["columns"]), {**table, "conformity": {}})
        if extra["task"] == "classification":
            loaded.labels = tuple(extra["classes"])
    return loaded
