"""What a person reads after a fit: scores beside those of the simplest models, and remarks to be seen."""

from __future__ import annotations

from typing import Any

import pytest

from cbdl.cli import show

SCORES: dict[str, Any] = {
    "rows": 400,
    "of": 900,
    "alpha": 0.05,
    "accuracy": 0.9,
    "nll": 0.3,
    "vacuous": 0.0,
    "coverage": 0.95,
    "size": 1.2,
    "unknown": 0,
    "missing": 0,
    "floor": 0.01,
    "baselines": {
        "majority": {"accuracy": 0.5, "nll": 0.7},
        "logistic regression": {"accuracy": 0.8, "nll": 0.5},
    },
}
SUMMARY: dict[str, Any] = {
    "model": "m",
    "task": "classification",
    "other_task": None,
    "target": "y",
    "rows": 1600,
    "features": 7,
    "imputed": 0,
    "members": 3,
    "dropped": ["prior 0, likelihood 0"],
    "spared": [],
    "classes": ["a", "b"],
    "failed": [],
    "rhat": 1.04,
    "converged": True,
    "held_out": SCORES,
}


def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, **changes: Any) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    show.fit({**SUMMARY, **changes}, chosen=True)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    return " ".join(out.split())


def test_a_summary_has_all_that_one_judges_by(capsys, monkeypatch):
    out = said(capsys, monkeypatch)
    for words in (
        "3 Bayesian networks (1 refuted by the data: prior 0, likelihood 0)",
        "converged yes (largest R-hat 1.04)",
        "400 of 900 rows that were held out",
        "accuracy of the decision 0.9 (majority 0.5, logistic regression 0.8)",
        "surprise (NLL) 0.3 nats (majority 0.7, logistic regression 0.5)",
        "coverage of the region 0.95 (asked: 0.95)",
        "size of the region 1.2",
        "of it Monte Carlo noise 0.01 nats",
    ):
        assert words in out
    assert "than the model" not in out
    assert "says nothing" not in out


def test_a_row_is_no_rows(capsys, monkeypatch):
    assert "1 row that was held out" in said(capsys, monkeypatch, held_out={**SCORES, "rows": 1, "of": 1})
    show.scores({**SCORES, "rows": 1, "of": 1})
    assert capsys.readouterr().out.splitlines()[0].strip() == "1 row"


def test_another_task_is_named_where_it_is_possible(capsys, monkeypatch):
    assert "task classification of y trained on" in said(capsys, monkeypatch)
    out = said(capsys, monkeypatch, other_task="regression")
    assert "task classification of y (by its values; else --task regression)" in out


def test_names_are_shown_as_they_are(capsys, monkeypatch):
    """What stands in brackets is no markup."""
    out = said(capsys, monkeypatch, classes=["[/red]", "[bold]b"], target="[y]", model="m[1]")
    for words in ("classes [/red], [bold]b", "classification of [y]", "model m[1]", "predict m[1]"):
        assert words in out


def test_chains_that_do_not_agree_and_members_that_failed_are_told(capsys, monkeypatch):
    out = said(capsys, monkeypatch, converged=False, rhat=2.5)
    assert "converged no (largest R-hat 2.50): chains do not agree; more --steps may help" in out
    out = said(capsys, monkeypatch, converged=False, failed=["prior 1, likelihood 0"])
    assert "converged no: 1 failed: prior 1, likelihood 0" in out
    out = said(capsys, monkeypatch, failed=["prior 0, likelihood 0"])
    assert "3 Bayesian networks (1 left out, their training failed: prior 0, likelihood 0)" in out
    assert "converged yes" in out, "of those that stay"
    assert "refuted" not in out


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"vacuous": 0.4},
            "For 40% of the rows the region is everything that there is: it says nothing there.",
        ),
        ({"coverage": 0.9}, "The region covers 90.0% of these outcomes, less than the 95% asked for."),
        ({"nll": 0.6}, "The logistic regression is less surprised than the model on these rows."),
        (
            {"accuracy": 0.4, "nll": 2.0},
            "The majority is more often right and less surprised than the model on these rows.",
        ),
        ({"size": 9.0, "range": 10.0}, "it says next to nothing"),
        ({"unknown": 3}, "rows with words never seen 3"),
    ],
)
def test_what_one_should_not_overlook_is_remarked(capsys, monkeypatch, changes, words):
    assert words in said(capsys, monkeypatch, held_out={**SCORES, **changes})
    assert words not in said(capsys, monkeypatch)
