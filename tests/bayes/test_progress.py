"""A bar for a person at a terminal, plain lines elsewhere, silence on request."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from cbdl.bayes import data, likelihoods, priors, progress
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods.mean_field import MeanField
from cbdl.bayes.train import Run


def fit(verbose: bool) -> None:
    x = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    made = data.prepare(x, x.sum(1), space="real")
    cohort = Cohort.of([priors.Normal()], likelihoods.Normal(lambda: nn.Linear(2, 1)), made)
    MeanField(epochs=3, batch_size=10).fit(cohort, made, Run(verbose=verbose, label="cohort 0"))


def test_silent(capfd: pytest.CaptureFixture[str]) -> None:
    fit(verbose=False)
    assert capfd.readouterr() == ("", "")


def test_plain_lines_go_to_stderr_every_few_seconds(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(verbose=True)
    assert capfd.readouterr() == ("", "")  # shorter than the interval
    monkeypatch.setattr(progress, "EVERY", 0.0)
    fit(verbose=True)
    out, err = capfd.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert len(lines) == 9
    assert lines[4].startswith("cohort 0: step 5 of 9, epoch 2 of 3, loss ")
    assert "s left" in lines[4]
    assert "\x1b" not in err


def test_a_bar_at_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    fit(verbose=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "cohort 0" in err
    assert "9/9" in err
