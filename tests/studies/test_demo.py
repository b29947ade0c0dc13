"""The demo: what a newcomer is numbers is what came out, and it makes the point."""

from __future__ import annotations

import json
from html import escape

import numpy as np
import pytest

from calls import called
from cbdl import plots
from cbdl.studies import report, study
from cbdl.studies.demo import STUDY, digits, outcomes


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One run of the whole demo: the folder, what was shown, what was noted, the numbers."""
    folder = tmp_path_factory.mktemp("demo") / "report"
    shown, noted = [], []
    numbers = study.run(STUDY, "cpu", folder, 0, noted.append, shown.append)
    return folder, shown, noted, numbers


def test_the_papers_example_is_instant_and_needs_no_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = called("demo", "--quick", "--json")
    numbers = json.loads(out)["outcomes"]
    assert code == 0
    assert numbers["region"] == [1, 2, 3]
    low, high = numbers["epistemic_bracket"]
    assert low <= numbers["epistemic"] <= high
    np.testing.assert_allclose(numbers["lower_probability"], outcomes.FIVE_OUTCOMES.min(0))
    assert not list(tmp_path.iterdir())


def test_ignorance_is_high_where_the_model_was_never_trained(whole):
    numbers = whole[3]["digits"]
    clean, noisy = numbers["clean digits"], numbers["noisy digits"]
    assert clean["accuracy"] > 0.96
    assert clean["coverage"] >= 0.95
    assert noisy["coverage"] >= 0.95
    assert clean["size"] < 2
    assert clean["epistemic"] < 0.25
    assert noisy["epistemic"] > 2 * clean["epistemic"]
    for name in {"scrambled", "photographs"} & set(numbers):
        assert numbers[name]["epistemic"] > 5 * clean["epistemic"]
        assert numbers[name]["epistemic"] > 5 * numbers[name]["floor"]
        assert numbers[name]["flagged"] > 0.7
    numbers = whole[3]["diabetes"]
    assert numbers["inside"]["coverage"] >= 0.93
    assert numbers["high body mass"]["coverage"] >= 0.93
    assert numbers["far away"]["epistemic"] > 3 * numbers["inside"]["epistemic"]
    assert numbers["far away"]["width"] > 2 * numbers["inside"]["width"]


def test_the_report_has_the_tables_the_numbers_and_the_figures(whole):
    folder, shown, noted, numbers = whole
    assert json.loads((folder / "numbers.json").read_text()) == numbers
    page = (folder / "index.html").read_text()
    for part in shown:
        assert escape(part.title) in page
        assert all(value in page for row in part.rows for value in row)
        if plots.available():
            assert (folder / f"{part.name}.png").read_bytes().startswith(b"\x89PNG")
            assert f'id="figure-{part.name}-' in page
    assert "<img" not in page
    assert page.count("<caption>Diagnostics</caption>") == 2
    assert "The inputs with most ignorance" in page
    assert page.count("its first member alone") == 2
    assert "cbdl study demo --profile cpu --seed 0" in page
    assert str(folder / "index.html") in noted[-1]


def test_without_matplotlib_the_rest_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "available", lambda: False)
    noted = []
    report.write(tmp_path, "Title", [outcomes.part()], noted.append)
    assert "cbdl[plots]" in noted[0]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "RESULTS.md",
        "index.html",
        "numbers.json",
        "outcomes.csv",
    ]
    assert "<img" not in (tmp_path / "index.html").read_text()


def test_without_pillow_the_photographs_are_left_out(monkeypatch):
    def no_pillow() -> None:
        raise ImportError

    monkeypatch.setattr(digits, "load_sample_images", no_pillow)
    assert [images.name for images in digits.data(0)[1]] == ["clean digits", "noisy digits", "scrambled"]


def test_images_are_in_range_and_the_test_was_not_trained_on():
    train, asked = digits.data(3)
    for images in (train, *asked):
        assert images.X.shape[1] == 64
        assert images.X.min() >= 0
        assert images.X.max() <= 1
    assert len(train.X) + len(asked[0].X) == 1797


def test_the_terminal_output_fits_80_columns(whole, capsys, monkeypatch):
    from cbdl.cli import show

    monkeypatch.setenv("COLUMNS", "80")
    for part in whole[1]:
        show.part(part)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert all(value in out for part in whole[1] for row in part.rows for value in row)
    assert "…" not in out
