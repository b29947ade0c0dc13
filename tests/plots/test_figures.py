"""What is drawn equals the numbers, computed here by other means."""

from __future__ import annotations

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pytest
import torch
from matplotlib import colors, pyplot
from scipy.spatial import ConvexHull
from scipy.stats import norm
from sklearn.metrics import roc_curve

import cbdl
from cbdl import evaluate, plots
from cbdl.plots import style
from cbdl.plots.classes import CORNERS

RNG = np.random.default_rng(3)
PROBS = RNG.dirichlet([2.0, 2.0, 2.0], (5, 7))
EIGHT = cbdl.CategoricalCredalSet(RNG.dirichlet(np.ones(8), 4))
NORMALS = cbdl.NormalCredalSet([-5.0, 5.0, 0.0], [1.0, 1.0, 2.0])


def area(ring):
    x, y = np.asarray(ring).T
    return abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2


def test_polygons_of_the_simplex_are_the_hulls_of_the_extremes():
    ax = plots.simplex(cbdl.CategoricalCredalSet(PROBS), labels=["a", "b", "c"])
    assert len(ax.patches) == len(PROBS)
    for own, patch in zip(PROBS, ax.patches, strict=True):
        assert area(patch.get_xy()[:-1]) == pytest.approx(ConvexHull(own @ CORNERS).volume, rel=1e-9)
    assert [t.get_text() for t in ax.texts] == ["a", "b", "c"]


def test_figures_know_the_names_of_the_classes():
    named = cbdl.CategoricalCredalSet(PROBS[0]).with_labels(["cat", "dog", "bird"])
    assert [t.get_text() for t in plots.simplex(named).texts] == ["cat", "dog", "bird"]
    assert [t.get_text() for t in plots.intervals(named).get_xticklabels()] == ["cat", "dog", "bird"]
    assert [t.get_text() for t in plots.simplex(named, labels="abc").texts] == ["a", "b", "c"]


def test_the_simplex_of_bounds_is_the_polygon_of_its_vertices():
    """Three intervals that cut a hexagon out of the triangle: its area in closed form, corner triangles taken away."""
    ax = plots.simplex(cbdl.IntervalCredalSet([0.2, 0.1, 0.3], [0.45, 0.4, 0.6]))
    free = 1 - 0.6  # lower bounds leave a triangle of this side; every upper bound cuts a corner off it
    cut = sum(max(0.0, free - room) ** 2 for room in (0.25, 0.3, 0.3))
    assert area(ax.patches[0].get_xy()[:-1]) == pytest.approx((free**2 - cut) * np.sqrt(3) / 4, rel=1e-9)


def test_one_distribution_is_a_dot_in_the_simplex():
    ax = plots.simplex(cbdl.CategoricalCredalSet([[0.2, 0.3, 0.5]] * 2))
    assert area(ax.patches[0].get_xy()) == pytest.approx(0.0, abs=1e-12)


def test_bars_reach_from_lower_to_upper_probability():
    ax = plots.intervals(EIGHT)
    low, high = EIGHT.probs.min(0), EIGHT.probs.max(0)
    bars = sorted(ax.patches, key=lambda b: b.get_x())
    np.testing.assert_allclose([b.get_y() for b in bars], low)
    np.testing.assert_allclose([b.get_y() + b.get_height() for b in bars], high)


def test_bars_outside_of_the_region_are_hollow():
    ax = plots.intervals(
        cbdl.CategoricalCredalSet([[0.9, 0.06, 0.04], [0.8, 0.19, 0.01]]), alpha=0.05, truth=1
    )
    full = {round(b.get_x() + b.get_width() / 2): b.get_facecolor()[3] > 0 for b in ax.patches[:3]}
    assert full == {0: True, 1: True, 2: False}


def test_rays_of_the_spider_are_as_long_as_the_probabilities():
    ax = plots.spider(EIGHT)
    high, low = (line for line in ax.lines if line.get_label() in ("upper probability", "lower probability"))
    reach = np.ceil(10 * EIGHT.probs.max()) / 10
    for line, values in ((high, EIGHT.probs.max(0)), (low, EIGHT.probs.min(0))):
        np.testing.assert_allclose(np.hypot(*line.get_data())[:-1], values / reach)


def test_the_band_holds_the_regions_and_the_means():
    x, loc = np.linspace(0, 1, 9), np.stack([np.linspace(0, 4, 9), -np.linspace(0, 4, 9)], -1)
    sets = cbdl.NormalCredalSet(loc, np.ones_like(loc))
    ax = plots.band(x, sets, data=([0.2], [0.3]), minimal=False)
    bands = [c for c in ax.collections if c.get_label() in ("union region, 0.95", "_more")]
    q = norm.ppf(0.975)
    top = max(path.vertices[:, 1].max() for c in bands for path in c.get_paths())
    assert top == pytest.approx(4 + q, abs=1e-6)
    # from where the means are two half-widths apart the union is two bands, so that 0 is in none of them
    cut = 0.5 * (x[loc[:, 0] < q].max() + x[loc[:, 0] > q].min())
    assert len(bands) == 3
    assert max(path.vertices[:, 0].max() for path in bands[0].get_paths()) == pytest.approx(cut)
    means = [line.get_ydata() for line in ax.lines if len(line.get_ydata()) == 9]
    np.testing.assert_allclose(np.stack(means[:2], -1), loc)
    shade = next(c for c in ax.collections if c.get_label() == "_epistemic")
    np.testing.assert_allclose(shade.get_array().ravel(), sets.uncertainty().epistemic)


def test_the_pbox_is_the_envelope_of_normal_distribution_functions():
    ax = plots.pbox(NORMALS)
    lines = {line.get_label(): line for line in ax.lines}
    y = lines["upper P(Y ≤ y)"].get_xdata()
    each = norm.cdf(y[:, None], NORMALS.loc, NORMALS.scale)
    np.testing.assert_allclose(lines["upper P(Y ≤ y)"].get_ydata(), each.max(-1), atol=1e-12)
    np.testing.assert_allclose(lines["lower P(Y ≤ y)"].get_ydata(), each.min(-1), atol=1e-12)


def test_densities_are_drawn_with_their_regions_below():
    ax = plots.density(NORMALS, alpha=0.1)
    curves = [line for line in ax.lines if len(line.get_xdata()) > 10]
    y = curves[0].get_xdata()
    for line, loc, scale in zip(curves, NORMALS.loc, NORMALS.scale, strict=True):
        np.testing.assert_allclose(line.get_ydata(), norm.pdf(y, loc, scale), atol=1e-12)
    bars = [line for line in ax.lines if line.get_linewidth() == 5]
    minimal = NORMALS.region(0.1, "minimal")
    own = [line.get_xdata() for line in bars if line.get_ydata()[0] == min(b.get_ydata()[0] for b in bars)]
    np.testing.assert_allclose(own, minimal.intervals)
    assert ax.texts[-1].get_text().strip() == f"minimal, {float(minimal.measure):.3g}"


OWN, FOREIGN = RNG.normal(0, 1, 80).round(1), RNG.normal(1, 1, 60).round(1)


def test_the_roc_curve_is_that_of_scikit_learn():
    ax = plots.roc(OWN, FOREIGN)
    line = next(line for line in ax.lines if line.get_label().startswith("0."))
    truth = np.r_[np.zeros(80), np.ones(60)]
    false, found, _ = roc_curve(truth, np.r_[OWN, FOREIGN], drop_intermediate=False)
    np.testing.assert_allclose(line.get_xdata(), false)
    np.testing.assert_allclose(line.get_ydata(), found)
    assert line.get_label() == f"{np.trapezoid(found, false):.3f}"


def test_histograms_are_shares_and_mark_95_percent():
    ax = plots.histogram(OWN, {"far": FOREIGN}, bins=12)
    shares = np.histogram(OWN, np.histogram_bin_edges(np.r_[OWN, FOREIGN], 12))[0] / len(OWN)
    drawn = next(p for p in ax.patches if p.get_label() == "own").get_xy()
    assert drawn[:, 1].max() == pytest.approx(shares.max())
    line = next(line for line in ax.lines if line.get_label() == "95 % of own")
    assert line.get_xdata()[0] == pytest.approx(np.quantile(OWN, 0.95))


def test_predictions_are_scattered_by_their_uncertainties():
    sets = cbdl.CategoricalCredalSet(torch.as_tensor(PROBS))
    ax = plots.aleatoric_epistemic({"some": sets[:3], "others": sets[3:]})
    split = sets.uncertainty()
    np.testing.assert_allclose(ax.lines[0].get_xdata(), split.aleatoric[:3])
    np.testing.assert_allclose(ax.lines[1].get_ydata(), split.epistemic[3:])


def test_curves_of_rejection_and_reliability_are_those_of_the_scores():
    right, doubt = RNG.random(50) < 0.8, RNG.random(50)
    curve = evaluate.rejection(right, doubt, draws=0)
    ax = plots.rejection({"ours": curve})
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), curve.accuracy)
    assert ax.lines[0].get_label() == f"ours, area {curve.area.value:.3f}"
    probs = RNG.dirichlet([1, 1], 50)
    own = evaluate.reliability(probs, right.astype(int), bins=5, draws=0)
    ax = plots.reliability(own)
    full = own.rows > 0
    np.testing.assert_allclose(
        ax.collections[0].get_offsets(), np.stack([own.confidence[full], own.accuracy[full]], -1)
    )


def test_severity_draws_means_in_order():
    ax = plots.severity({"epistemic": {2: [3.0, 5.0], 1: [1.0], 3: np.array([6.0])}})
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[1, 1], [2, 4], [3, 6]])


TABLE = {"credal": {"coverage": 0.95, "width": 2.0}, "single": {"coverage": 0.8, "width": 1.0}}


def frames():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = [{"name": name, **row} for name, row in TABLE.items()]
    return [TABLE, rows, pandas.DataFrame(rows), polars.DataFrame(rows)]


def test_coverage_is_drawn_from_any_table():
    for table in frames():
        ax = plots.coverage_width(table)
        marks = {c.get_label(): c.lines[0].get_xydata()[0].tolist() for c in ax.containers}
        assert marks == {"credal": [2.0, 0.95], "single": [1.0, 0.8]}


def test_coverage_and_efficiency_come_with_their_bootstrap_intervals():
    credal = cbdl.CategoricalCredalSet(PROBS)
    score = evaluate.label_coverage(credal, PROBS.mean(1), draws=50)
    ax = plots.coverage_efficiency({"credal": score})
    bar = ax.containers[0].lines[2][0].get_segments()[0]
    np.testing.assert_allclose(bar[:, 0], [score.efficiency.low, score.efficiency.high])


@pytest.fixture(scope="module")
def chains():
    X = np.linspace(-1, 1, 20)[:, None]
    return cbdl.CBDL(
        [cbdl.priors.Normal(0, 1), cbdl.priors.Normal(0, 2)],
        [cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, (4,)), scale=0.2)],
        cbdl.MCLMC(optimise=20, warmup=20, draws=10, thin=1, chains=3),
        engine=cbdl.engines.Local(),
        verbose=False,
    ).fit(X, X[:, 0] + 3)


def test_traces_losses_and_rhat_are_those_of_the_members(chains):
    ax = plots.traces(chains, [0.3])
    drawn = np.stack([line.get_ydata() for line in ax.lines])
    assert drawn.shape == (6, 10)
    # the mean over all draws of a member is what it predicts; 30 draws are all there are
    means = chains.predict([[0.3]], 30, predictive="normal").loc[0]
    np.testing.assert_allclose(drawn.reshape(2, -1).mean(-1), means, rtol=1e-5)
    losses = chains.learned.losses()
    ax = plots.losses(chains)
    for line, (member, loss) in zip(ax.lines, losses.items(), strict=True):
        assert line.get_label() == str(member)
        np.testing.assert_array_equal(line.get_ydata(), loss)
    report = chains.diagnostics()
    ax = plots.rhat(report)
    shown = sorted(float(x) for line in ax.lines if line.get_marker() in "oX" for x in line.get_xdata())
    assert shown == sorted(row.rhat for row in report.rows)


def test_a_figure_draws_on_the_axes_that_it_is_given(chains):
    _, ax = pyplot.subplots()
    curve = evaluate.rejection([1, 0], [0.1, 0.2], draws=0)
    for draw in (
        lambda: plots.simplex(cbdl.CategoricalCredalSet(PROBS[0]), ax),
        lambda: plots.spider(EIGHT, ax),
        lambda: plots.pbox(NORMALS, ax),
        lambda: plots.rejection(curve, ax),
        lambda: plots.losses(chains, ax),
    ):
        assert draw() is ax
    assert len(pyplot.get_fignums()) == 1


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: plots.simplex(EIGHT), "8 classes"),
        (lambda: plots.simplex(cbdl.CategoricalCredalSet(np.full((9, 2, 3), 1 / 3))), "up to 6"),
        (lambda: plots.pbox(EIGHT), "on the line"),
        (lambda: plots.intervals(NORMALS), "over classes"),
        (lambda: plots.intervals(cbdl.CategoricalCredalSet(PROBS)), r"credal\[0\]"),
        (lambda: plots.intervals(EIGHT, labels="ab"), "8 classes"),
        (lambda: plots.band([1.0, 0.0], cbdl.NormalCredalSet([[0.0], [1.0]], 1.0)), "ascending"),
        (lambda: plots.coverage_width({"a": {"coverage": 1.0}}), "width or size"),
        (lambda: plots.coverage_width(3), "data frame"),
        (lambda: plots.rejection("x"), "Rejection"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_words(draw, words):
    with pytest.raises(ValueError, match=words):
        draw()


def test_legends_are_whole_and_nothing_is_above_an_accuracy_of_one():
    """They stand above the axes, where the layout does not make room for their width."""
    names = ("total", "aleatoric", "epistemic")
    curves = {name: evaluate.rejection([1, 1, 0, 1], [0.1, 0.2, 0.9, 0.3], draws=0) for name in names}
    kinds = {name: {"coverage": 0.95, "width": 2.0} for name in ("union", "lower-density", "minimal")}
    drawn = plots.rejection(curves)
    for ax in (
        plots.intervals(cbdl.CategoricalCredalSet([[0.7, 0.2, 0.1], [0.55, 0.3, 0.15]]), alpha=0.3),
        plots.coverage_width(kinds),
        drawn,
    ):
        ax.figure.canvas.draw()
        box, whole = ax.get_legend().get_window_extent(), ax.figure.bbox
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1
        assert whole.y0 <= box.y0 < box.y1 <= whole.y1
        pyplot.close(ax.figure)
    assert max(tick for tick in drawn.get_yticks() if tick <= drawn.get_ylim()[1]) <= 1


def test_marks_that_coincide_are_all_seen():
    ax = plots.coverage_width({name: {"coverage": 0.95, "width": 2.0} for name in "abc"})
    sizes = [c.lines[0].get_markersize() for c in ax.containers]
    assert sizes == sorted(set(sizes), reverse=True)


def test_series_differ_without_their_colours_and_colours_without_each_other():
    """Red- and green-blind eyes (the projections of Viénot, Brettel and Mollon, 1999) see no two series alike."""
    assert len({*style.MARKS}) == len({*map(str, style.STROKES)}) == len(style.COLOURS)
    linear = np.array([colors.to_rgb(c) for c in style.COLOURS]) ** 2.2
    kinds = {
        "protanopia": [[0.1124, 0.8876, 0.0], [0.1124, 0.8876, 0.0], [0.004, -0.004, 1.0]],
        "deuteranopia": [[0.2928, 0.7072, 0.0], [0.2928, 0.7072, 0.0], [-0.0223, 0.0223, 1.0]],
    }
    for matrix in kinds.values():
        seen = (linear @ np.array(matrix).T).clip(0, 1) ** (1 / 2.2)
        gaps = np.abs(seen[:, None] - seen[None]).max(-1) + np.eye(len(seen))
        assert gaps.min() > 0.06
