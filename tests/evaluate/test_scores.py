"""Scores against scikit-learn, scipy and their definitions; intervals against the theory of the bootstrap."""

import io

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from sklearn import metrics

import cbdl
from cbdl import evaluate
from cbdl.evaluate.detection import aupr, auroc, fpr95
from cbdl.evaluate.estimate import mean
from cbdl.evaluate.rejection import rejection_area
from cbdl.evaluate.trend import ranked
from trials import trials

ONE = {"rtol": 1e-12, "atol": 1e-12}


def weights_of(n, draws=20, seed=0):
    """Bootstrap samples as indices (draws, n) and as counts (draws, n)."""
    index = np.random.default_rng(seed).integers(0, n, size=(draws, n))
    return index, np.stack([np.bincount(i, minlength=n) for i in index]).astype(float)


def scored(seed=0, n=60, levels=12):
    """Scores with many ties, and which rows are positive."""
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.4
    return np.round(rng.random(n) + 0.5 * positive, 1), positive


# --- estimates ---------------------------------------------------------------------------------------------


def test_weights_are_the_same_as_repeated_rows():
    scores, positive = scored()
    index, counts = weights_of(len(scores))
    right = (np.arange(len(scores)) % 3 > 0).astype(float)
    for statistic in (
        lambda rows: mean(right[rows]),
        lambda rows: auroc(scores[rows], positive[rows]),
        lambda rows: aupr(scores[rows], positive[rows]),
        lambda rows: fpr95(scores[rows], positive[rows]),
        lambda rows: rejection_area(right[rows], scores[rows]),
        lambda rows: ranked(right[rows], scores[rows]),
    ):
        everyone = np.arange(len(scores))
        truth = [statistic(rows)(np.ones((1, len(rows))))[0] for rows in index]
        np.testing.assert_allclose(statistic(everyone)(counts), truth, rtol=1e-10)


def test_bootstrap_intervals_of_a_mean_are_those_of_the_normal_limit():
    values = np.random.default_rng(0).normal(3, 2, size=4000)
    got = evaluate.estimate(mean(values), 4000, draws=2000, level=0.9)
    half = 1.6449 * values.std() / np.sqrt(4000)
    assert got.value == pytest.approx(values.mean())
    # a quantile of 2000 draws has a standard error of about 5 % of the half width
    assert got.high - got.value == pytest.approx(half, rel=0.2)
    assert got.value - got.low == pytest.approx(half, rel=0.2)
    assert float(got) == got.value
    assert str(evaluate.Estimate(0.5, 0.25, 0.75)) == "0.5 [0.25, 0.75]"


def test_estimates_repeat_and_do_without_a_bootstrap():
    a, b = (evaluate.estimate(mean(np.arange(9.0)), 9, draws=50, seed=3) for _ in range(2))
    assert a == b
    plain = evaluate.estimate(mean(np.arange(9.0)), 9, draws=0)
    assert np.isnan(plain.low)
    for bad in ({"sizes": 0}, {"sizes": 9, "level": 1.0}):
        with pytest.raises(ValueError, match=next(reversed(bad))):
            evaluate.estimate(mean(np.arange(9.0)), **bad)


def test_samples_are_resampled_by_themselves():
    """Of one own and three foreign rows every draw has one and three: the AUROC cannot fail."""
    scores, positive = np.array([0.0, 1, 1, 1]), np.array([False, True, True, True])
    got = evaluate.estimate(auroc(scores, positive), (1, 3), draws=100)
    assert (got.value, got.low, got.high) == (1, 1, 1)


def test_infinite_scores_stay_infinite_only_where_they_were_drawn():
    got = mean(np.array([1.0, np.inf]))(np.array([[1.0, 0.0], [1.0, 1.0], [2.0, 0.0]]))
    assert got.tolist() == [1, np.inf, 1]
    with pytest.raises(ValueError, match=r"scores\[1\]"):
        mean([0.0, np.nan])


# --- detection ---------------------------------------------------------------------------------------------


@trials(40)
@given(st.integers(0, 10_000), st.integers(5, 60))
def test_areas_are_those_of_scikit_learn(seed, n):
    scores, positive = scored(seed, n)
    positive[:2] = [True, False]
    one = np.ones((1, n))
    np.testing.assert_allclose(
        auroc(scores, positive)(one)[0], metrics.roc_auc_score(positive, scores), **ONE
    )
    truth = metrics.average_precision_score(positive, scores)
    np.testing.assert_allclose(aupr(scores, positive)(one)[0], truth, **ONE)
    # own rows are the positives of the curve, and their score is certainty
    false, true, _ = metrics.roc_curve(~positive, -scores, drop_intermediate=False)
    np.testing.assert_allclose(fpr95(scores, positive)(one)[0], false[true >= 0.95 - 1e-12].min(), **ONE)


def test_detection_goes_by_every_uncertainty_and_every_set():
    rng = np.random.default_rng(0)
    own = rng.dirichlet([20, 1, 1], size=(50, 4))
    far, near = rng.dirichlet([1, 1, 1], size=(40, 4)), rng.dirichlet([10, 1, 1], size=(30, 4))
    table = evaluate.detection(own, {"near": near, "far": torch.tensor(far)}, draws=100)
    assert {one.foreign for one in table} == {"near", "far"}
    names = {one.measure for one in table}
    assert names >= {"total", "aleatoric", "epistemic", "epistemic_lower", "hartley", "information", "width"}
    by = {(one.measure, one.foreign): one for one in table}
    assert by["total", "far"].auroc.value > by["total", "near"].auroc.value
    u = [cbdl.CategoricalCredalSet(p).uncertainty().epistemic for p in (own, far)]
    truth = metrics.roc_auc_score(np.repeat([0, 1], [50, 40]), np.concatenate(u))
    got = by["epistemic", "far"].auroc
    assert got.value == pytest.approx(truth)
    assert got.low <= got.value <= got.high
    with pytest.raises(ValueError, match="measures has 'doubt'"):
        evaluate.detection(own, far, ["doubt"])


def test_boxes_and_sets_on_the_line_have_uncertainties_too():
    box = cbdl.constructions.wrapper(np.random.default_rng(0).dirichlet(np.ones(4), size=(6, 3)))
    assert "hartley" in evaluate.uncertainties(box)
    assert "information" not in evaluate.uncertainties(box)
    line = cbdl.NormalCredalSet(np.zeros((6, 2)), np.array([1.0, 2.0]) * np.ones((6, 2)))
    assert set(evaluate.uncertainties(line)) == {"total", "aleatoric", "epistemic", "epistemic_lower"}
    many = cbdl.CategoricalCredalSet(np.full((2, 1, 30), 1 / 30))
    assert "hartley" not in evaluate.uncertainties(many)


# --- rejection ---------------------------------------------------------------------------------------------


def test_the_curve_is_the_accuracy_of_the_most_certain_rows():
    rng = np.random.default_rng(0)
    right, doubt = rng.random(40) < 0.7, rng.random(40)
    curve = evaluate.rejection(right, doubt, draws=50)
    order = np.argsort(doubt)
    truth = np.array([right[order][: 40 - k].mean() for k in range(40)])
    np.testing.assert_allclose(curve.accuracy, truth, **ONE)
    assert curve.area.value == pytest.approx(truth.mean())
    assert curve.at(0.25) == pytest.approx(truth[10])
    assert curve.area.low < curve.area.value < curve.area.high
    with pytest.raises(ValueError, match="share is 1"):
        curve.at(1.0)
    with pytest.raises(ValueError, match="of 40 rows that leaves none"):
        curve.at(0.99)
    with pytest.raises(ValueError, match="correct has shape"):
        evaluate.rejection(right[1:], doubt)


def test_an_oracle_is_best_and_a_constant_tells_nothing():
    right = np.array([1, 1, 1, 0, 0])
    best = evaluate.rejection(right, 1 - right, draws=0)
    assert best.accuracy.tolist() == pytest.approx([0.6, 0.75, 1, 1, 1])
    flat = evaluate.rejection(right, np.zeros(5), draws=0)
    np.testing.assert_allclose(flat.accuracy, 0.6)
    # the order of rows is no information
    again = evaluate.rejection(right[::-1], np.zeros(5), draws=0)
    np.testing.assert_allclose(again.accuracy, 0.6)


# --- calibration -------------------------------------------------------------------------------------------


def test_brier_and_log_loss_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(4), size=50), rng.integers(0, 4, 50)
    assert evaluate.log_loss(p, y).mean() == pytest.approx(metrics.log_loss(y, p, labels=range(4)))
    one = p[:, 0]
    binary = np.stack([one, 1 - one], -1)
    label = (y > 1).astype(int)
    # scikit-learn's score of two classes is half of the sum over both
    assert evaluate.brier(binary, label).mean() / 2 == pytest.approx(metrics.brier_score_loss(label, 1 - one))
    assert evaluate.log_loss([[1.0, 0.0]], [1])[0] == np.inf


def test_the_calibration_error_is_its_definition():
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(3) * 0.7, size=300), rng.integers(0, 3, 300)
    got = evaluate.reliability(p, y, bins=10, draws=100)
    total, confidence, right = 0.0, p.max(-1), p.argmax(-1) == y
    for b in range(10):
        inside = (confidence > b / 10) & (confidence <= (b + 1) / 10)
        assert got.rows[b] == inside.sum()
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
            assert got.accuracy[b] == pytest.approx(right[inside].mean())
            assert got.confidence[b] == pytest.approx(confidence[inside].mean())
        else:
            assert np.isnan(got.accuracy[b])
    assert got.ece.value == pytest.approx(total)


def test_labels_that_do_not_fit_are_named():
    p = np.full((3, 2), 0.5)
    for y, message in (
        ([0, 1], "one label for each of the 3"),
        ([0, 1, 2], r"y\[2\] is 2"),
        ([0, 1, 0.5], r"y\[2\]"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate.reliability(p, y)
    with pytest.raises(ValueError, match="bins is 0"):
        evaluate.reliability(p, [0, 1, 0], bins=0)
    with pytest.raises(ValueError, match="not over classes"):
        evaluate.reliability(cbdl.NormalCredalSet([[0.0]], [[1.0]]), [0])


# --- the line ----------------------------------------------------------------------------------------------


def test_the_crps_of_a_mixture_is_the_integral_of_its_definition():
    rng = np.random.default_rng(0)
    loc, scale = rng.normal(size=(4, 3, 2)), np.exp(rng.normal(size=(4, 3, 2)))
    weights = rng.dirichlet(np.ones(2), size=(4, 3))
    cs, y = cbdl.MixtureCredalSet(loc, scale, weights), rng.normal(size=4)
    for i, got in enumerate(evaluate.crps(cs, y)):

        def cdf(t, i=i):
            return (weights[i] * stats.norm.cdf(t, loc[i], scale[i])).sum() / 3

        low = integrate.quad(lambda t: cdf(t) ** 2, -np.inf, y[i], epsabs=1e-11)[0]
        high = integrate.quad(lambda t: (1 - cdf(t)) ** 2, y[i], np.inf, epsabs=1e-11)[0]
        assert got == pytest.approx(low + high, abs=1e-8)


def test_the_crps_of_a_normal_is_closed():
    y, s = np.array([-1.0, 0.3, 2.0]), np.array([0.5, 1.0, 2.0])
    z = y / s
    truth = s * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    np.testing.assert_allclose(evaluate.crps(cbdl.NormalCredalSet(np.zeros((3, 1)), s[:, None]), y), truth)


def test_the_interval_score_is_least_at_the_quantiles():
    y = np.random.default_rng(0).normal(size=20_000)
    q = stats.norm.ppf(0.95)
    best = evaluate.interval_score(-q, q, y, 0.1).mean()
    for factor in (0.8, 1.25):
        assert evaluate.interval_score(-factor * q, factor * q, y, 0.1).mean() > best


def test_scores_of_the_line_are_their_definitions():
    rng = np.random.default_rng(0)
    loc, y = rng.normal(size=(200, 2)), rng.normal(size=200)
    table = evaluate.scores(cbdl.NormalCredalSet(loc, np.ones_like(loc)), y, alpha=0.1, draws=50)
    assert table["rmse"].value == pytest.approx(np.sqrt(np.mean((loc.mean(-1) - y) ** 2)))
    density = stats.norm.pdf(y[:, None], loc, 1).mean(-1)
    assert table["log loss"].value == pytest.approx(-np.log(density).mean())
    region = cbdl.NormalCredalSet(loc, np.ones_like(loc)).region(0.1, "minimal")
    assert table["coverage"].value == pytest.approx(region.contains(y).mean())
    assert table["size"].value == pytest.approx(region.measure.mean())
    assert all(one.low <= one.value <= one.high for one in table.values())
    with pytest.raises(ValueError, match="one finite number for each"):
        evaluate.crps(cbdl.NormalCredalSet(loc, np.ones_like(loc)), y[1:])
    with pytest.raises(ValueError, match="one output at a time"):
        evaluate.scores(
            cbdl.DiagonalNormalCredalSet(np.zeros((2, 1, 3)), np.ones((2, 1, 3))), np.zeros((2, 3))
        )


# --- tables, labels, files ---------------------------------------------------------------------------------


def test_scores_of_classes_are_those_of_their_parts():
    rng = np.random.default_rng(0)
    P, y = rng.dirichlet(np.ones(3), size=(80, 4)), rng.integers(0, 3, 80)
    cs = cbdl.CategoricalCredalSet(P)
    table = evaluate.scores(P, y, alpha=0.2, draws=50)
    assert table["accuracy"].value == pytest.approx((P.mean(1).argmax(-1) == y).mean())
    region = cs.region(0.2, "minimal")
    assert table["size"].value == pytest.approx(region.measure.mean())
    assert table["coverage"].value == pytest.approx(region.contains(y).mean())
    right = P.mean(1).argmax(-1) == y
    truth = evaluate.rejection(right, cs.uncertainty().epistemic, draws=0).area.value
    assert table["rejection area by epistemic"].value == pytest.approx(truth)
    assert set(table) >= {"log loss", "brier", "ece"}


def test_coverage_of_label_distributions_stands_beside_efficiency():
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=(30, 4))
    labels = np.concatenate([P[:15].mean(1), np.eye(3)[np.zeros(15, int)]])
    hull, box = (evaluate.label_coverage(s, labels, draws=20) for s in (P, cbdl.constructions.wrapper(P)))
    assert hull.coverage.value == 0.5
    assert box.coverage.value >= hull.coverage.value
    assert box.efficiency.value == pytest.approx(1 - (P.max(1) - P.min(1)).mean())
    vacuous = cbdl.IntervalCredalSet(np.zeros((30, 3)), np.ones((30, 3)))
    all_of_it = evaluate.label_coverage(vacuous, labels, draws=0)
    assert (all_of_it.coverage.value, all_of_it.efficiency.value) == (1, 0)


def test_the_trend_is_spearmans():
    rng = np.random.default_rng(0)
    severity = rng.integers(0, 6, 100)
    doubt = severity + 3 * np.round(rng.normal(size=100), 1)
    got = evaluate.trend(severity, doubt, draws=100)
    assert got.value == pytest.approx(stats.spearmanr(severity, doubt).statistic)
    assert got.low < got.value < got.high
    assert evaluate.trend([1, 1, 1], [1.0, 2.0, 3.0], draws=0).value == 0


SETS = [
    cbdl.CategoricalCredalSet(np.random.default_rng(0).dirichlet(np.ones(3), size=(5, 2))),
    cbdl.IntervalCredalSet(np.full((5, 3), 0.1), np.full((5, 3), 0.6)),
    cbdl.NormalCredalSet(np.zeros((5, 2)), np.ones((5, 2))),
    cbdl.MixtureCredalSet(np.zeros((5, 2, 3)), np.ones((5, 2, 3))),
    cbdl.DiagonalNormalCredalSet(np.zeros((5, 2, 3)), np.ones((5, 2, 3))),
]


@pytest.mark.parametrize("cs", SETS, ids=lambda cs: type(cs).__name__)
def test_files_hold_every_kind_of_set_and_its_outcomes(cs, tmp_path):
    path = tmp_path / "predictions.npz"
    evaluate.save(path, cs, y=np.arange(5))
    back = evaluate.load(path)
    assert type(back.prediction) is type(cs)
    assert back.y.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(back.prediction.mean(), cs.mean())
    evaluate.save(path, cs)
    assert evaluate.load(path).y is None


def test_scores_are_the_same_from_a_set_probabilities_and_a_file(tmp_path):
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=(20, 2))
    y = np.arange(20) % 3
    evaluate.save(tmp_path / "a.npz", P)
    np.savez(tmp_path / "b.npz", probs=P)
    tables = [
        evaluate.scores(given, y, draws=20)
        for given in (
            P,
            cbdl.CategoricalCredalSet(P),
            torch.tensor(P),
            tmp_path / "a.npz",
            str(tmp_path / "b.npz"),
        )
    ]
    assert all(table == tables[0] for table in tables)


def test_outcomes_that_a_file_holds_need_not_be_given(tmp_path):
    P, y = np.random.default_rng(0).dirichlet(np.ones(3), size=(20, 2)), np.arange(20) % 3
    with_y, without = tmp_path / "a.npz", tmp_path / "b.npz"
    evaluate.save(with_y, P, y)
    evaluate.save(without, P)
    assert evaluate.scores(with_y, draws=20) == evaluate.scores(P, y, draws=20)
    assert evaluate.reliability(str(with_y), draws=20).ece == evaluate.reliability(P, y, draws=20).ece
    others = (y + 1) % 3
    assert (
        evaluate.scores(with_y, others, draws=0)["accuracy"]
        == evaluate.scores(P, others, draws=0)["accuracy"]
    )
    for judged in (evaluate.scores, evaluate.reliability):
        with pytest.raises(ValueError, match=r"y is not given: .*b\.npz holds none"):
            judged(without)
        with pytest.raises(ValueError, match="y is not given: give the outcomes"):
            judged(P)


def test_files_keep_the_names_of_classes(tmp_path):
    P = np.random.default_rng(0).dirichlet(np.ones(2), size=(4, 3))
    cs, y = cbdl.CategoricalCredalSet(P).with_labels(["cat", "dog"]), np.array(["cat", "dog", "cat", "cat"])
    evaluate.save(tmp_path / "a.npz", cs, y.astype(object))
    back = evaluate.load(tmp_path / "a.npz")
    assert back.prediction.labels == ("cat", "dog")
    assert back.y.tolist() == [0, 1, 0, 0]
    assert evaluate.scores(tmp_path / "a.npz", draws=0) == evaluate.scores(cs, y, draws=0)
    with pytest.raises(ValueError, match="y holds words"):
        evaluate.save(tmp_path / "b.npz", P, y)


def test_files_that_are_none_are_refused(tmp_path):
    (tmp_path / "text.npz").write_text("no")
    np.savez(tmp_path / "odd.npz", other=np.zeros(3))
    np.savez(tmp_path / "short.npz", kind=np.array("interval"), lower=np.zeros((2, 3)))
    for name, message in (
        ("text", "not a file of predictions"),
        ("odd", "needs the fields"),
        ("short", "has no upper"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate.load(tmp_path / f"{name}.npz")
    with pytest.raises(ValueError, match="not a file of predictions"):
        evaluate.load(tmp_path / "absent.npz")
    with pytest.raises(ValueError, match="predictions have shape"):
        evaluate.scores(np.zeros(3), [0, 1, 2])


# --- what makes no sense ----------------------------------------------------------------------------------


def test_intervals_of_infinite_scores_have_ends():
    """An impossible outcome makes the mean infinite wherever it is drawn, and finite elsewhere."""
    table = evaluate.scores(np.array([[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]]), [0, 1, 0], draws=200)["log loss"]
    sure = evaluate.scores(np.array([[1.0, 0.0]] * 3), [1, 1, 0], draws=200)["log loss"]
    assert np.isfinite([table.value, table.low, table.high]).all()
    assert (sure.value, sure.high) == (np.inf, np.inf)
    # of 200 draws of three rows about seven have no impossible outcome: more than the 2.5 % below the interval
    assert sure.low == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evaluate.brier([[np.nan, 0.3]], [0]), "is nan"),
        (lambda: evaluate.log_loss([[5.0, -3.0]], [1]), "at least 0"),
        (lambda: evaluate.brier([0.7, 0.3], [0, 1]), r"p has shape \(2,\)"),
        (lambda: evaluate.log_loss([[0.7, 0.7]], [1]), "sums to 1.4"),
        (lambda: evaluate.interval_score([np.nan], [1.0], [0.5], 0.1), r"lower\[0\] is nan"),
        (lambda: evaluate.interval_score([0.0, 0], [1.0, 1], [[0.5], [0.1]], 0.1), "one of each per row"),
        (lambda: evaluate.trend([0, 1, 2], [0.1, 0.2]), "severity has 3 rows and uncertainty 2"),
        (lambda: evaluate.rejection([1, np.nan], [0.1, 0.2]), r"correct\[1\] is nan"),
        (lambda: evaluate.rejection([], []), "one number per row"),
        (lambda: evaluate.detection(np.full((2, 3), 1 / 3), np.full((2, 4), 0.25)), "one model"),
        (
            lambda: evaluate.detection(np.full((2, 2), 0.5), cbdl.NormalCredalSet([[0.0]], [[1.0]])),
            "one model",
        ),
        (
            lambda: evaluate.crps(cbdl.DiagonalNormalCredalSet([[0.0, 9.0]], [[1.0, 1.0]]), [0.0]),
            "on the line",
        ),
        (lambda: evaluate.crps(cbdl.CategoricalCredalSet([[0.5, 0.5]]), [0.0]), "on the line"),
        (lambda: evaluate.reliability(np.full((2, 2), 0.5), [0, 1], draws=-1), "draws is -1"),
        (lambda: evaluate.reliability(np.full((2, 2), 0.5), [0, 1], draws=2.5), "draws is 2.5"),
    ],
)
def test_what_has_no_score_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_uncertainties_and_crps_take_files_and_probabilities_too(tmp_path):
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=(5, 2))
    line = cbdl.NormalCredalSet([[0.0, 1.0]], [[1.0, 2.0]])
    evaluate.save(tmp_path / "classes.npz", P)
    evaluate.save(tmp_path / "line.npz", line)
    truth = cbdl.CategoricalCredalSet(P).uncertainty().epistemic
    for form in (P, torch.tensor(P), tmp_path / "classes.npz"):
        np.testing.assert_allclose(evaluate.uncertainties(form, ["epistemic"])["epistemic"], truth)
    np.testing.assert_allclose(evaluate.crps(tmp_path / "line.npz", [0.5]), evaluate.crps(line, [0.5]))


def test_scores_of_tensors_are_those_of_arrays():
    P, y = np.random.default_rng(0).dirichlet(np.ones(3), 5), np.arange(5) % 3
    for score in (evaluate.brier, evaluate.log_loss):
        np.testing.assert_allclose(score(torch.tensor(P, requires_grad=True), torch.tensor(y)), score(P, y))


def test_files_that_are_damaged_are_refused(tmp_path):
    path = tmp_path / "answers.npz"
    evaluate.save(path, np.random.default_rng(0).dirichlet(np.ones(3), 50))
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 4] ^= 255
    buffer = io.BytesIO()
    np.save(buffer, np.full((2, 2), 0.5))
    for content in (b"", whole[: len(whole) // 2], bytes(flipped), buffer.getvalue()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="not a file of predictions"):
            evaluate.load(path)
    np.savez(path, kind=np.array(["classes"]), probs=np.full((2, 2), 0.5))
    assert evaluate.load(path).prediction.batch_shape == (2,)


def test_outcomes_are_saved_for_every_row_or_not_at_all(tmp_path):
    with pytest.raises(ValueError, match="one outcome for each"):
        evaluate.save(tmp_path / "a.npz", np.full((3, 2), 0.5), [0, 1])
    assert not (tmp_path / "a.npz").exists()
