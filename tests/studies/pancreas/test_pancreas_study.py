"""The pancreas study by its command: tables and figures, other patients, resuming; and its statistics."""

import json

import numpy as np
import pytest
from scipy import stats

from calls import called
from cbdl import plots
from cbdl.studies.pancreas import runs
from cbdl.studies.pancreas.comparison import improvement, paired, regions
from cbdl.studies.pancreas.plans import PATIENTS, PLANS, TUNED_ON
from cbdl.studies.shelf import Shelf
from protocols import check_report


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """One run of a patient that was not fixed in advance."""
    folder = tmp_path_factory.mktemp("pancreas") / "report"
    arguments = ("study", "pancreas", "--profile", "smoke", "--only", "child#005", "--out", folder, "--json")
    code, out, err = called(*arguments)
    assert code == 0, err
    return json.loads(out), err, folder, arguments


def test_the_command_writes_tables_figures_and_numbers(smoke):
    numbers, _, folder, _ = smoke
    named = {
        "patients",
        "members",
        "perf-diff",
        "regions",
        "metrics",
        "risks",
        "zones",
        "by-patient",
        "traces",
    }
    assert {*named, "goals"} <= set(numbers)
    assert {"MF widths", "ours - MF seeds", "ours - MF seeds, <70"} <= set(numbers["perf-diff"])
    check_report(numbers, folder)
    for name in ("zones", "by-patient", "traces"):
        assert (folder / f"{name}.png").stat().st_size > 10_000
    text = (folder / "RESULTS.md").read_text()
    assert "| * seeds | -5.8 | +5.5 | +0.6 | - |" in text
    assert list(numbers["patients"]["patients"]) == ["child#005"]
    every = {
        f"{own.name}{f' {1 - alpha:g}' * (alpha > 0)}"
        for own in runs.CONTESTANTS
        for alpha in own.alphas or (0,)
    }
    assert set(numbers["metrics"]) == every
    own = numbers["metrics"]["ours CBDL 0.95"]["numbers"]
    assert own["unsafe"] == pytest.approx(own["below_70"] + own["above_300"])


def test_networks_and_closed_loops_done_anew_are_the_same(smoke):
    shelf, plan = Shelf(smoke[2] / runs.CACHE), PLANS["smoke"]
    for line_up, contestant in (("MF seeds", "MF seeds EBNN"), ("ours", "ours CBDL")):
        training = runs.Training(line_up, "child#005", plan.samples, plan.epochs, 0)
        trained = training.do()
        same(trained, shelf.get(training.key), but={"seconds"})
        loop = runs.Control(contestant, plan.cases(("child#005",), 0), plan.generations, 0, (trained,))
        same(loop.do(), shelf.get(loop.key))


def same(own, kept, but=frozenset()):
    assert set(own) == set(kept)
    for name in set(own) - but:
        np.testing.assert_array_equal(own[name], kept[name])


def test_a_second_run_reads_what_is_kept_and_says_the_same(smoke, monkeypatch):
    numbers, _, _, arguments = smoke
    monkeypatch.setattr(runs, "train", None)  # nothing can be trained or controlled now
    monkeypatch.setattr(runs, "run", None)
    monkeypatch.setattr(plots, "available", lambda: False)
    code, out, err = called(*arguments)
    assert code == 0, err
    assert json.loads(out) == numbers
    assert err.count("(kept)") == 3 + len(runs.CONTESTANTS)


def test_unknown_patients_are_refused(tmp_path):
    code, _, err = called(
        "study", "pancreas", "--profile", "smoke", "--only", "adult#11", "--out", tmp_path / "a"
    )
    assert code == 2
    assert "has no 'adult#11'" in err
    assert not (tmp_path / "a").exists()


def test_the_profiles_have_the_cases_that_were_promised():
    cases = PLANS["cpu"].cases(PATIENTS, 0)
    assert len(PATIENTS) >= 10
    assert len(cases.initial) >= 5
    assert len(cases.seeds) >= 3
    assert cases.minutes == 1440
    assert PLANS["cpu"].samples == 28_400
    assert PLANS["cpu"].epochs == 200
    assert not set(PATIENTS) & set(TUNED_ON)
    assert {name[:5] for name in PATIENTS} == {"adult", "adole", "child"}


def test_differences_pool_before_they_divide():
    theirs, ours = np.array([[0.4, 0.0], [0.0, 0.0]]), np.array([[0.2, 0.0], [0.1, 0.0]])
    assert paired(theirs, ours, 50, 0).value == pytest.approx((0.4 - 0.3) / 0.4)
    nothing = paired(np.zeros((2, 2)), np.zeros((2, 2)), 50, 0)
    assert (nothing.value, nothing.low, nothing.high) == (0.0, 0.0, 0.0)
    assert paired(np.zeros((2, 2)), ours, 50, 0).plain()["value"] is None
    assert improvement(np.array(0.0), np.array(0.0)) == 0


def test_regions_are_held_against_the_glucose_five_steps_later():
    """Forecasts of step t are for the end of step t + 4; nothing is forecast in the first two steps."""
    glucose = np.arange(100.0, 112.0)[None, None, None]
    low, high = (np.full(glucose.shape, np.nan) for _ in range(2))
    low[..., 2:] = glucose[..., 2:] + np.array(
        [3.5, 4.5] * 5
    )  # above the outcome, glucose + 4, every second time
    high[..., 2:] = low[..., 2:] + np.where(np.arange(2, 12) < 6, 20.0, 10.0)
    days = {"glucose": glucose, "low": low, "high": high}
    own = regions(days, 0, np.arange(12) < 4)
    assert own.coverage == own.below == 0.5
    assert own.after_meals == 20.0
    assert own.otherwise == pytest.approx((2 * 20 + 2 * 10) / 4)
    assert own.width == pytest.approx((4 * 20 + 2 * 10) / 6)


def test_intervals_are_those_of_scipys_bootstrap():
    rng = np.random.default_rng(0)
    theirs = rng.uniform(0.1, 0.5, (40, 1))
    ours = 0.8 * theirs + rng.uniform(0.0, 0.1, (40, 1))

    def share(a, b, axis=-1):
        return (a.mean(axis) - b.mean(axis)) / a.mean(axis)

    known = stats.bootstrap(
        (theirs[:, 0], ours[:, 0]), share, paired=True, n_resamples=4000, method="percentile", random_state=1
    ).confidence_interval
    own = paired(theirs, ours, 4000, 0)
    width = known.high - known.low
    assert own.low == pytest.approx(known.low, abs=0.1 * width)
    assert own.high == pytest.approx(known.high, abs=0.1 * width)


def test_a_file_that_is_not_whole_is_no_result(tmp_path):
    shelf, key = Shelf(tmp_path), {"name": "a b", "seed": 1}
    assert shelf.get(key) is None
    shelf.put(key, {"x": np.arange(3.0)})
    np.testing.assert_array_equal(shelf.get(key)["x"], np.arange(3.0))
    assert shelf.get({**key, "seed": 2}) is None
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:50])
    assert shelf.get(key) is None
