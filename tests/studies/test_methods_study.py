"""The study of all methods: what its report shows beside the scores."""

from __future__ import annotations

import numpy as np
import pytest

import cbdl
from cbdl.report.page import Table as Shown
from cbdl.studies.methods.details import details
from cbdl.studies.methods.scores import of_method
from cbdl.studies.methods.tables import Table


@pytest.mark.parametrize("kind", ["real", "classes"])
def test_the_report_shows_members_and_the_rows_that_they_know_least_about(kind):
    source = np.random.default_rng(0)
    X = source.normal(size=(40, 2))
    y = X[:, 0] if kind == "real" else (X[:, 0] > 0).astype(int)
    X[35] = 30.0  # among the test rows, far from all others
    table = Table("made", kind, "made", X[:30], y[:30], X[30:], y[30:])
    scores, model = of_method(table, cbdl.Laplace(epochs=20, lr=0.05), 0, (4,))
    assert scores.nll is not None
    blocks = details("Laplace", model, table)
    shown = {block.caption: block for block in blocks if isinstance(block, Shown)}
    assert len(shown["Members"].rows) == len(shown["Diagnostics"].rows) == 3
    ignorance = shown["The inputs with most ignorance (epistemic)"]
    if kind == "real":
        assert ignorance.rows[0][0] == "6"  # rows are counted from 1
    assert "feature" in ignorance.rows[0][3]
    assert "Laplace" in blocks[0]
