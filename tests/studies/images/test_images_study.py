"""The image study by its command: it runs without any data set, is kept and resumed, and says what it lacks."""

import json
from dataclasses import replace

import numpy as np
import pytest

import cbdl
from calls import called
from cbdl import plots
from cbdl.studies.images import answers, members, published, published_noises, runs
from cbdl.studies.images.lines import CREDAL, LINES
from cbdl.studies.images.members import LINE_UPS
from cbdl.studies.images.plans import PLANS
from cbdl.studies.images.sources import SOURCES
from cbdl.studies.study import Context
from protocols import check_report


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """One run by the command line: numbers, what was noted, the folder, the arguments."""
    folder = tmp_path_factory.mktemp("images") / "report"
    arguments = ("study", "images", "--train", "all", "--profile", "smoke", "--out", folder, "--json")
    code, out, err = called(*arguments)
    assert code == 0, err
    return json.loads(out), err, folder, arguments


def test_the_command_writes_tables_figures_and_numbers(smoke):
    numbers, err, folder, _ = smoke
    assert "runs on scikit-learn's digits" in err
    assert {
        "scores-digits",
        "epistemic-paper-digits",
        "rejection-digits",
        "foreign-digits",
        "auroc-epistemic",
    } <= set(numbers)
    check_report(numbers, folder)
    for name in ("rejection-digits", "noises-digits", "auroc-epistemic"):
        assert (folder / f"{name}.png").stat().st_size > 10_000
    assert set(LINES) <= set(numbers["auroc-epistemic"]["digits -> scrambled"])


def test_members_have_learned_and_lines_agree_with_them(smoke):
    numbers, *_ = smoke
    scores, members = numbers["scores-digits"]["lines"], numbers["scores-digits"]["members"]
    assert {name: len(own) for name, own in members.items()} == LINE_UPS
    assert min(min(own) for own in members.values()) > 0.5
    assert scores["ensemble"]["accuracy"] >= min(members["ordinary"])
    # the same networks, each a little more or less sure than before
    assert scores["ours"]["accuracy"] == pytest.approx(scores["ensemble"]["accuracy"], abs=0.03)


def test_the_exact_epistemic_uncertainty_is_at_least_the_papers_bound(smoke):
    numbers, *_ = smoke
    for line in CREDAL:
        clean = numbers["measures"][f"digits, {line}"]["clean"]
        assert clean["epistemic"] >= clean["epistemic_lower"] - 1e-9
    assert numbers["measures"]["digits, CBDL"]["floor"] > 0


def test_ours_knows_what_is_foreign_and_the_papers_variance_falls_with_doubt(smoke):
    numbers, *_ = smoke
    foreign = numbers["foreign-digits"]
    for rows in ("scrambled", "inverted", "textures"):
        assert foreign["ours"][rows]["epistemic"] > 2 * foreign["ours"]["clean"]["epistemic"]
        assert foreign["EBNN"][rows]["aleatoric"] < foreign["EBNN"]["clean"]["aleatoric"]
        assert foreign["EBNN label"][rows]["aleatoric"] > foreign["EBNN label"]["clean"]["aleatoric"]


def test_temperature_initial_scale_dropout_and_least_share_are_those_of_their_own_members():
    """So that another one trains nobody else anew: what members are kept by names how they were trained."""
    plan = PLANS["cpu"]
    for source, own in plan.trainings.items():
        plain = replace(own, temperature=1.0, initial_scale=0.01, dropout=0.1, least=0.5)
        own_of = {
            "mean field": {"temperature": own.temperature, "initial_scale": own.initial_scale},
            "dropout": {"dropout": own.dropout},
            "robust": {"least": own.least},
        }
        for line_up in LINE_UPS:
            assert plan.training(source, line_up) == replace(plain, **own_of.get(line_up, {}))
    assert plan.training("cifar", "mean field").temperature < 1


def test_mean_field_members_of_cifar_start_narrow_and_all_others_as_by_default():
    plan = PLANS["cpu"]
    images = cbdl.data.load("digits", "train").sized(16, "resize")
    scales = {}
    for source, own in plan.trainings.items():
        how = replace(plan.training(source, "mean field"), net="lenet")
        method = members.model_for("mean field", 0, how, images, 0).method
        assert (method.initial_scale, method.temperature) == (own.initial_scale, own.temperature)
        scales[source] = method.initial_scale
    usual = cbdl.MeanField().initial_scale
    assert scales == dict.fromkeys(plan.trainings, usual) | {"cifar": 0.001}


def test_the_background_is_asked_of_networks_alone():
    """Members with draws do not depend on it, and asking them takes longest."""
    plan = PLANS["smoke"]
    keys = {}
    for rooms in (answers.OF_POINTS, ()):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(answers, "OF_POINTS", rooms)
            for line_up in LINE_UPS:
                how = plan.training("digits", line_up)
                task = answers.Asking("digits", line_up, 0, 0, how, plan.sizes["digits"], None)
                keys.setdefault(line_up, set()).add(task.key["code"])
    assert {name: len(own) for name, own in keys.items()} == {
        "ordinary": 2,
        "robust": 2,
        "mean field": 1,
        "dropout": 1,
    }


@pytest.mark.parametrize("end", ["raise SystemExit(3)", "import os; os.abort()"])
def test_half_precision_is_left_alone_where_it_ends_a_process(monkeypatch, end):
    monkeypatch.setattr(members, "TRIAL", end)
    members.half_precision.cache_clear()
    assert not members.half_precision()
    members.half_precision.cache_clear()


def test_a_second_run_reads_what_is_kept_and_says_the_same(smoke, monkeypatch):
    numbers, _, _, arguments = smoke
    monkeypatch.setattr(answers, "trained", None)  # nothing can be trained now
    monkeypatch.setattr(plots, "available", lambda: False)  # figures take a while
    code, out, err = called(*arguments)
    assert code == 0
    assert json.loads(out) == numbers
    assert err.count("(kept)") == sum(LINE_UPS.values()) + 1


def test_line_ups_can_be_picked_and_the_lines_are_theirs(smoke, monkeypatch):
    numbers, _, _, arguments = smoke
    monkeypatch.setattr(answers, "trained", None)
    monkeypatch.setattr(plots, "available", lambda: False)
    code, out, err = called(*arguments, "--only", "ordinary")
    assert code == 0, err
    own = json.loads(out)
    lines = own["scores-digits"]["lines"]
    assert list(lines) == ["ensemble", "wrapper", "ours", "ours averaged"]
    assert all(lines[name] == numbers["scores-digits"]["lines"][name] for name in lines)
    assert "claims" not in own
    assert set(own["auroc-epistemic"]["digits -> inverted"]) >= {"ensemble", "ours", "paper"}


def test_trained_members_are_kept_apart_from_their_answers(smoke, monkeypatch):
    """Answers that are lost are asked again from the member that is there, and are the same."""
    *_, folder, _ = smoke
    file = next((folder / "runs").glob("digits-ordinary-0*.npz"))
    before = dict(np.load(file))
    [place] = [
        p for p in (folder / "members").iterdir() if p.name.startswith("digits-ordinary-0") and p.is_dir()
    ]
    plan = PLANS["smoke"]
    task = answers.Asking(
        "digits", "ordinary", 0, 0, plan.training("digits", "ordinary"), plan.sizes["digits"], place.parent
    )
    monkeypatch.setattr(answers, "trained", None)
    again = task.do()
    assert all(np.allclose(again[name], before[name], atol=1e-5) for name in again if name != "seconds")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("study", "images", "--train", "cats"), "images has no 'cats'; only picks from mnist"),
        (("study", "demo", "--train", "mnist"), "demo is not trained on a data set of images"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(tmp_path, arguments, words):
    code, _, err = called(*arguments, "--profile", "smoke", "--out", tmp_path / "out")
    assert code == 2
    assert words in " ".join(err.split())
    assert not (tmp_path / "out").exists()


def test_without_files_the_study_says_so_and_runs_on_digits(tmp_path, monkeypatch):
    monkeypatch.setenv("CBDL_DATA", str(tmp_path))
    sources, about = runs.chosen(Context("cpu", 0, None, print, ("mnist",)))
    assert [own.name for own in sources] == ["digits"]
    assert "Without the files of mnist" in about


def test_the_papers_numbers_are_whole():
    pairs = [own["CBDL"][0] for foreign in published.AUROC.values() for own in foreign.values()]
    assert len(pairs) == 12
    assert np.mean(pairs) == pytest.approx(0.924, abs=5e-4)  # as the paper's table sums up
    for name, source in SOURCES.items():
        assert (
            set(published_noises.SHIFTED[name])
            == set(source.corruptions)
            == set(published_noises.AREAS[name])
        )
        assert all(len(own) == 18 for own in published_noises.SHIFTED[name].values())
        by_noise = np.mean([own[0] for own in published_noises.AREAS[name].values()])
        by_severity = np.mean(published.SEVERITY[name]["CBDL"])
        assert by_noise == pytest.approx(by_severity, abs=2e-3)  # two tables of the same curves
