"""Claims and goals of the image study are computed from what was measured, and from nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from calls import called
from cbdl.studies.images import published, verdicts
from cbdl.studies.images.lines import CBDL, EBNN, ENSEMBLE, LINES, OURS, Said
from cbdl.studies.images.measures import area, curve, detection
from cbdl.studies.images.runs import Result
from cbdl.studies.images.sources import SEVERITIES, SOURCES
from cbdl.studies.images.tables import Table
from cbdl.studies.study import Context


def numbers(source, auroc, area):
    """Everything that a source has, with one AUROC and one area per line."""
    others = [name for name in SOURCES if name != source.name]
    uncertain = {"epistemic": 0.1, "aleatoric": 0.2}
    return {
        "scores": {line: {"ece": 0.005} for line in LINES},
        "members": {"ordinary": [0.91, 0.89], "robust": [0.9], "mean field": [0.87], "dropout": [0.9]},
        "means": {name: dict.fromkeys(LINES, uncertain) for name in ("clean", *others)},
        "auroc": {
            name: {
                line: {"epistemic": {"value": auroc.get(line, 0.5)}, "aleatoric": {"value": 0.5}}
                for line in LINES
            }
            for name in others
        },
        "corrupted": {
            noise: {
                str(s): {
                    line: {
                        **uncertain,
                        "epistemic": 0.1 * s,
                        **{name: area.get(line, 0.5) for name in ("area", "area_total")},
                        "area_error": 0.6,
                        "area_epistemic": 0.4,
                    }
                    for line in LINES
                }
                for s in SEVERITIES
            }
            for noise in source.corruptions
        },
    }


def table(auroc, area, names=tuple(SOURCES)):
    own = [Result(SOURCES[name], 0, numbers(SOURCES[name], auroc, area)) for name in names]
    return Table(tuple(own))


def by_words(verdicts_, words):
    [own] = [verdict for verdict in verdicts_ if words in verdict.what]
    return own


def test_goals_count_pairs_and_data_sets():
    own = list(verdicts.goals(table({OURS: 0.97, ENSEMBLE: 0.96}, {OURS: 0.6, ENSEMBLE: 0.6})))
    above = sum(p["CBDL"][0] < 0.97 for foreign in published.AUROC.values() for p in foreign.values())
    assert by_words(own, "above the paper's").value == above < 12
    assert by_words(own, "mean of the twelve pairs").value == pytest.approx(0.97)
    assert by_words(own, "above the deep ensemble's").reached
    assert by_words(own, "area of at least").value == 4
    behind = list(verdicts.goals(table({}, {OURS: 0.59, ENSEMBLE: 0.5})))  # whose best is 0.6, by error
    assert by_words(behind, "area of at least").value == 0
    assert by_words(own, "MNIST -> SVHN").reached is False
    assert by_words(own, "worst member of ours").value == pytest.approx(0.01)
    assert by_words(own, "worst member of all").value == pytest.approx(0.03)


def test_what_some_data_sets_cannot_tell_is_not_told():
    own = list(verdicts.goals(table({OURS: 0.97}, {}, ("mnist",))))
    assert by_words(own, "mean of the twelve pairs").reached is None
    assert by_words(own, "ECE, MNIST").reached
    assert by_words(own, "ECE, Fashion").value is None


def test_claims_compare_high_with_low_severity_and_lines_with_each_other():
    own = list(verdicts.claims(table({CBDL: 0.9}, {CBDL: 0.7, EBNN: 0.8}, ("mnist",))))
    assert by_words(own, "EU of CBDL").value == pytest.approx(0.35)  # (0.4 + 0.5) / 2 - 0.1
    assert by_words(own, "AU of EBNN, high").reached is False
    assert by_words(own, "area by total, CBDL - EBNN").value == pytest.approx(-0.1)
    assert by_words(own, "area by EU, CBDL - BNN").value == 0
    assert by_words(own, "increase of AU").value == pytest.approx(0.0)
    assert by_words(own, "by its AU").value == pytest.approx(0.4)


def test_rows_are_measured_by_definition():
    """By hand: four rows, one of them wrong; it is the most doubtful but one."""
    point = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.5, 0.5]])
    zero = np.zeros(4)
    said = Said(point, zero, zero, np.array([0.0, 0.1, 0.3, 0.4]))
    y = np.array([0.0, 0.0, 1.0, 0.0])
    assert area(said, y, "doubt") == pytest.approx((3 / 4 + 2 / 3 + 1 + 1) / 4)
    many = Said(*(np.repeat(own, 10, 0) for own in (point, zero, zero, zero)))
    assert curve(many, np.repeat(y, 10))[::10] == pytest.approx([0.75, 1.0])
    far = Said(point, zero, zero, np.array([0.2, 0.2, 0.5, 0.5]))
    assert detection(said, far)["epistemic"]["value"] == pytest.approx((2 + 2 + 4 + 4) / 16)


def test_several_seeds_show_their_spread():
    seeds = [
        Result(SOURCES["mnist"], i, numbers(SOURCES["mnist"], {OURS: 0.96 + 0.02 * i}, {})) for i in range(2)
    ]
    own = Table(tuple(seeds))
    assert own.auroc(SOURCES["mnist"], "svhn", OURS) == pytest.approx(0.97)
    assert own.deviation(SOURCES["mnist"], "svhn", OURS, "epistemic") == pytest.approx(0.02 / np.sqrt(2))
    assert Table(tuple(seeds[:1])).deviation(SOURCES["mnist"], "svhn", OURS, "epistemic") is None


def test_seeds_that_are_asked_for_are_those_from_the_first_on(tmp_path):
    asked = Context("cpu", 3, None, print, seeds=2)
    assert list(asked.repetitions(1)) == [3, 4]
    assert list(replace(asked, seeds=None).repetitions(1)) == [3]
    code, _, err = called("study", "demo", "--profile", "smoke", "--seeds", "2", "--out", tmp_path / "x")
    assert code == 2
    assert "demo is run with one seed; leave --seeds out" in err
