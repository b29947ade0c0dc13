"""One HTML file that needs nothing else, is valid, and says what the model says."""

from __future__ import annotations

import json
import re
import subprocess

import html5lib
import numpy as np
import pandas as pd
import pytest
from browser import AXE, NU, chromium, look, needed, violations

import cbdl
from calls import called
from cbdl import plots, report
from cbdl.report import Code, Figure, Page, Section, Table, Warn, reproduction
from cbdl.report.explain import features_of_numbers, most_uncertain
from cbdl.serve import pages
from cbdl.tables.files import sample

ROWS = (("two", "10.5"), ("ten <b>", "9"), ("one", "-"), ("six", "100 [90, 110]"))
SETS = cbdl.CategoricalCredalSet([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1]])


def example() -> Page:
    blocks = [
        "Text & more.",
        Table("A < B", ("name", "value"), ROWS, "A note."),
        Warn("Look out."),
        Figure("one", "A simplex", lambda figure: plots.simplex(SETS, figure.add_subplot())),
        Figure("two", "Again", lambda figure: plots.intervals(SETS, figure.add_subplot())),
        Code("cbdl <file>"),
    ]
    return Page("An <example>", ["Lead."], [Section("1. First", blocks), reproduction("cbdl demo")], "End.")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A model of three species, trained in a moment, and the report about it as `cbdl report` writes it."""
    from sklearn.datasets import load_iris

    folder = tmp_path_factory.mktemp("report")
    frame = load_iris(as_frame=True).frame
    frame["target"] = np.array(["setosa", "<versicolor>", "virginica"])[frame["target"]]
    frame["colour"] = np.where(frame.index % 3 == 0, "blue", "white")
    frame.to_csv(folder / "iris.csv", index=False)
    code, _, err = called(
        *("fit", str(folder / "iris.csv"), "--target", "target", "--steps", "60", "--calibration", "none"),
        *("--engine", "local", "--out", str(folder / "model")),
    )
    assert code == 0, err
    page = folder / "report.html"
    code, out, err = called(
        "report", str(folder / "model"), str(folder / "iris.csv"), "--out", str(page), "--json"
    )
    assert code == 0, err
    return folder, page, json.loads(out)


def parsed(text: str):
    """The page as a tree; a strict parser finds any mistake in the markup."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)


def test_a_page_is_one_valid_file_without_anything_outside_of_it(table):
    for text in (report.html(example()), table[1].read_text()):
        tree = parsed(text)
        ids = [e.get("id") for e in tree.iter() if e.get("id")]
        assert len(ids) == len(set(ids))
        outside = re.findall(r'(?:src|href|url|@import)\s*[=(]\s*["\']?\s*(?:https?:|//|file:)[^"\')]*', text)
        assert not outside
        targets = {e.get("href")[1:] for e in tree.iter("a")}
        assert targets <= set(ids)


def test_figures_are_inline_and_in_the_ink_of_the_page():
    text = report.html(example())
    assert text.count("<svg") == 2
    assert "<img" not in text
    assert "currentColor" in text
    drawing = text[text.index("<svg") : text.rindex("</svg>")]
    assert not re.search(r"#(000000|010101|ffffff)", drawing)
    assert "var(--series-0)" in drawing
    used = set(re.findall(r'href="#(figure-[^"]+)"', drawing)) | set(
        re.findall(r"url\(#(figure-[^)]+)\)", drawing)
    )
    assert used
    assert used <= set(re.findall(r'id="([^"]+)"', drawing))


def test_text_is_escaped():
    text = report.html(example())
    assert "An &lt;example&gt;" in text
    assert "<b>" not in text
    assert "Text &amp; more." in text


def test_without_matplotlib_the_page_says_so(monkeypatch):
    monkeypatch.setattr(plots, "available", lambda: False)
    text = report.html(example())
    assert "<svg" not in text
    assert "cbdl[plots]" in text


def test_the_report_of_a_model_has_its_parts(table):
    folder, page, numbers = table
    tree = parsed(page.read_text())
    titles = ["".join(e.itertext()) for e in tree.iter("h2")]
    assert titles == [
        "What was trained",
        "How good it is",
        "Figures",
        "What it is most uncertain of",
        "How to reproduce",
    ]
    text = "".join(tree.itertext())
    model = cbdl.load(folder / "model")
    assert model.labels == ("<versicolor>", "setosa", "virginica")
    for member in model.learned.members:
        assert str(member) in text
    assert "logistic regression" in text
    assert "R-hat" in text
    assert page.read_text().count("<svg ") == 5
    assert numbers["report"] == str(page)
    credal, nothing = (numbers["scores"][who] for who in ("the credal set", "outcomes without inputs"))
    assert credal["accuracy"] > nothing["accuracy"]
    assert nothing["accuracy"] == pytest.approx(1 / 3)


def test_a_table_without_outcomes_has_a_report_without_scores(table, tmp_path):
    folder = table[0]
    pd.read_csv(folder / "iris.csv").drop(columns="target")[::10].to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "r.html"
    code, _, err = called("report", str(folder / "model"), str(tmp_path / "new.csv"), "--out", str(out))
    assert code == 0, err
    assert "without outcomes there are no scores" in out.read_text()
    code, _, err = called("report", str(folder / "model"), str(tmp_path / "new.csv"), "--out", str(tmp_path))
    assert (code, "which is a folder" in err) == (2, True)


def test_the_feature_that_matters_is_found():
    """A set whose extremes part by feature 1 alone: it is named first, and at its median the ignorance is gone."""
    X = np.array([[5.0, 0.0, 1.0], [6.0, 0.1, 1.0], [7.0, 4.0, 2.0], [9.0, -0.1, 0.0]])

    def predict(rows):
        loc = np.stack([rows[:, 0], rows[:, 0] + 3 * np.abs(rows[:, 1])], -1)
        return cbdl.NormalCredalSet(loc, np.ones_like(loc))

    found = most_uncertain(predict, X, predict(X), features_of_numbers(X, ["a", "b", "c"]), most=2)
    assert [own.row for own in found] == [2, 1] or [own.row for own in found] == [2, 3]
    first = found[0]
    assert first.moves[0].feature.name == "b"
    assert first.uncertainty == pytest.approx(float(predict(X[2:3]).uncertainty().epistemic[0]))
    moved = X[2:3].copy()
    moved[0, 1] = np.median(X[:, 1])
    assert first.moves[0].uncertainty == pytest.approx(float(predict(moved).uncertainty().epistemic[0]))
    assert [move.feature.name for move in first.moves] == ["b"]


def test_a_sample_of_rows_is_as_large_as_asked_for_and_in_order(table):
    path = table[0] / "iris.csv"
    whole = pd.read_csv(path)
    chunk, places, total = sample(path, 20, seed=1)
    assert total == len(whole)
    assert len(set(places.tolist())) == 20
    assert places.tolist() == sorted(places.tolist())
    np.testing.assert_array_equal(
        np.asarray(chunk["petal length (cm)"]).astype(float), whole["petal length (cm)"][places]
    )
    assert sample(path, 500)[1].tolist() == list(range(total))


# --- in a real browser ------------------------------------------------------------------------------------------


def test_a_person_can_read_and_sort_it_on_any_screen(table, tmp_path):
    """Chromium: accessible (axe) in light and dark, no wider than a phone, tables that sort by mouse and keyboard."""
    needed(AXE)
    page = report.write(example(), tmp_path / "page.html")
    with chromium(tmp_path / "profile") as driver:
        grounds = {}
        for width, scheme in ((1200, "light"), (390, "dark")):
            look(driver, table[1], width, scheme)
            assert violations(driver) == []
            assert driver.execute_script("return document.documentElement.scrollWidth") <= width
            grounds[scheme] = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert grounds["light"] != grounds["dark"]
        look(driver, page, 1200, "light")
        assert violations(driver) == []
        names = 'return [...document.querySelectorAll("tbody")[0].rows].map(r => r.cells[0].textContent)'
        buttons = driver.find_elements("css selector", "thead button")
        buttons[1].click()
        assert driver.execute_script(names) == ["ten <b>", "two", "six", "one"]
        assert driver.execute_script('return document.querySelectorAll("th")[1].ariaSort') == "ascending"
        buttons[1].send_keys("\ue007")  # Enter
        assert driver.execute_script(names) == ["six", "two", "ten <b>", "one"]
        assert driver.execute_script('return document.querySelectorAll("th")[1].ariaSort') == "descending"
        buttons[0].click()
        assert driver.execute_script(names) == ["one", "six", "ten <b>", "two"]
        assert [line for line in driver.get_log("browser") if line["level"] == "SEVERE"] == []


def test_the_nu_checker_finds_no_error(table, tmp_path):
    needed(NU, "java")
    written = [report.write(example(), tmp_path / "page.html"), table[1]]
    for name, (
        content,
        _,
    ) in pages.load().items():  # those of the service: its start takes longer than the check
        if name.endswith((".html", ".css")):
            written.append(tmp_path / name)
            written[-1].write_bytes(content)
    brief = [
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
    ]  # a program of two seconds is not worth compiling well
    check = ["java", *brief, "-jar", NU, "--also-check-css", *written]
    assert subprocess.run(check, capture_output=True, text=True, check=False).stderr == ""
