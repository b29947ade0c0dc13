"""Tables and their splits: supplied ones are taken as they are, and test rows do not teach."""

from __future__ import annotations

import numpy as np
import pytest

from cbdl.studies.tables.sources import CLASSES, OWN, UCI, sources


def uci(place, rows, splits):
    """A folder like those of the supplied splits: the target is the first column."""
    place.mkdir(parents=True)
    np.savetxt(place / "data.txt", rows)
    np.savetxt(place / "index_features.txt", np.arange(1, rows.shape[1]))
    np.savetxt(place / "index_target.txt", [0])
    for k, (train, test) in enumerate(splits):
        np.savetxt(place / f"index_train_{k}.txt", train)
        np.savetxt(place / f"index_test_{k}.txt", test)


def test_supplied_splits_are_taken_row_by_row(tmp_path):
    rows = np.random.default_rng(0).normal(size=(10, 4)).round(3)
    splits = [([0, 1, 2, 9, 4], [3]), ([5, 6, 7], [8, 0])]
    uci(tmp_path / "uci" / "energy", rows, splits)
    for k, (train, test) in enumerate(splits):
        table = sources(tmp_path)["energy"].load(k)
        np.testing.assert_allclose(table.X, rows[train, 1:])
        np.testing.assert_allclose(table.y, rows[train, 0])
        np.testing.assert_allclose(table.X_test, rows[test, 1:])
        np.testing.assert_allclose(table.y_test, rows[test, 0])


def test_what_is_not_there_says_so(tmp_path):
    known = sources(tmp_path)
    assert not any(known[name].there for name in (*UCI, *CLASSES, "airfoil"))
    assert all(known[name].there for name in OWN)


@pytest.fixture
def words(tmp_path):
    """A table with a number that is missing in places, and a word."""
    (tmp_path / "tables").mkdir()
    source = np.random.default_rng(1)
    lines = ["size,colour,target"]
    for i in range(60):
        size = "?" if i % 7 == 0 else f"{source.normal():.3f}"
        lines.append(f"{size},{'red' if i % 3 else 'blue'},{'yes' if i % 4 == 0 else 'no'}")
    (tmp_path / "tables" / "glass.csv").write_text("\n".join(lines))
    return tmp_path


def test_categories_become_columns_and_missing_values_the_median_of_training_rows(words):
    for split in range(5):
        table = sources(words)["glass"].load(split)
        assert table.X.shape[1] == 3
        np.testing.assert_array_equal(table.X[:, 1:].sum(1), 1)
        values, counts = np.unique(np.concatenate([table.X[:, 0], table.X_test[:, 0]]), return_counts=True)
        fill = values[counts.argmax()]  # what stands for the nine that are missing
        known = np.sort(table.X[table.X[:, 0] != fill, 0])
        below, above = (known < fill).sum(), (known > fill).sum()
        assert abs(below - above) <= 1


def test_class_splits_are_stratified_and_the_same_each_time(words):
    one, again, other = (sources(words)["glass"].load(k) for k in (0, 0, 1))
    np.testing.assert_array_equal(one.X, again.X)
    assert not np.array_equal(one.X, other.X)
    assert one.y_test.mean() == pytest.approx(0.25, abs=0.5 / 12)
    assert one.classes == 2


def test_airfoil_has_one_split_in_units_of_its_training_rows(tmp_path):
    (tmp_path / "tables").mkdir()
    rows = np.random.default_rng(2).normal(5, 3, size=(50, 6))
    header = "frequency,angle,length,velocity,thickness,target"
    np.savetxt(tmp_path / "tables" / "airfoil.csv", rows, delimiter=",", header=header, comments="")
    first, second = (sources(tmp_path)["airfoil"].load(k) for k in (0, 1))
    np.testing.assert_array_equal(first.X, second.X)
    for values in (first.X, first.y):
        np.testing.assert_allclose(values.mean(0), 0, atol=1e-12)
        np.testing.assert_allclose(values.std(0), 1, rtol=1e-12)
    assert len(first.y_test) == 10
    # the test rows in the same units: undone by the mean and deviation of all rows but these
    whole = np.concatenate([first.y, first.y_test])
    slope, level = np.polyfit(np.sort(whole), np.sort(rows[:, 5]), 1)
    np.testing.assert_allclose(slope * np.sort(whole) + level, np.sort(rows[:, 5]), rtol=1e-9)


@pytest.mark.parametrize("name", list(OWN))
def test_scikit_learns_tables_are_split_without_overlap(name):
    table = sources()[name].load(3)
    assert len(table.X_test) == round(0.2 * (len(table.X) + len(table.X_test)) + 0.49)
    assert table.kind == OWN[name][0]
