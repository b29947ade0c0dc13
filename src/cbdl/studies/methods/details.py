"""What only the report shows of a table: the members of the best method, and the rows that they know least about."""

from __future__ import annotations

from typing import Any

from cbdl.model import CBDL
from cbdl.report import explain
from cbdl.report import parts as sections
from cbdl.report.page import Block
from cbdl.studies.methods.scores import ALPHA, SAMPLES
from cbdl.studies.methods.tables import Table
from cbdl.tables.files import Floats

ROWS = 200
"""Test rows that are looked at, at most."""


def details(name: str, model: CBDL, table: Table) -> tuple[Block, ...]:
    """Who was trained, how that went, and which test rows are the hardest, with what makes them so."""

    def predict(X: Floats) -> Any:
        return model.predict(X, SAMPLES, predictive="normal")

    X = table.X_test[:ROWS]
    known = predict(X)
    usual = explain.features_of_numbers(X, [f"feature {j}" for j in range(X.shape[1])])
    found = {
        kind: explain.most_uncertain(predict, X, known, usual, kind, alpha=ALPHA) for kind in explain.KINDS
    }
    return (
        f"The method with the lowest NLL here, {name}, of the first split:",
        *sections.trained(model),
        *sections.checked(sections.diagnosed(model)),
        f"The rows of which its members are most uncertain, of the first {len(X)} test rows, and how their region "
        "moves when one feature is set to its median, all others as they are:",
        *sections.uncertain(found, alpha=ALPHA),
    )
