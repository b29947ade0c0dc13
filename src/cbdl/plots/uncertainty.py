"""What uncertainties are good for: noise beside ignorance, rejection, detection, reliability, severity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cbdl.credal import CredalSet
from cbdl.evaluate.calibration import Reliability
from cbdl.evaluate.detection import auroc
from cbdl.evaluate.predictions import Predicted, prediction_of
from cbdl.evaluate.rejection import Rejection
from cbdl.evaluate.uncertainties import uncertainties
from cbdl.plots.results import by_name
from cbdl.plots.style import Floats, axes_for, legend, looks, numbers, one_batch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Scores: TypeAlias = "Predicted | npt.NDArray[np.float64]"
"""A prediction, or one uncertainty per row (n,)."""
HATCHES = ("", "////", "\\\\\\\\", "....", "xxxx", "----")


def aleatoric_epistemic(
    credal: CredalSet | Mapping[str, CredalSet], ax: Axes | None = None, *, floor: bool = True
) -> Axes:
    """Noise across, ignorance upwards, a dot per row (nats); several kinds of rows by name.

    With `floor` a dotted line marks the mean of the Monte Carlo floor where it is known: dots below it could be noise
    of the draws alone.

    - `credal`: a batch of sets, or several by name
    - `ax`: the Axes to draw on; None makes new ones

    >>> import cbdl
    >>> ax = aleatoric_epistemic(cbdl.CategoricalCredalSet([[[0.9, 0.1], [0.8, 0.2]], [[0.9, 0.1], [0.1, 0.9]]]))
    """
    kinds = {"": credal} if isinstance(credal, CredalSet) else dict(credal)
    ax = axes_for(ax)
    for look, (name, sets) in zip(looks(), kinds.items(), strict=False):
        one_batch(sets)
        split = sets.uncertainty()
        ax.plot(
            numbers(split.aleatoric),
            numbers(split.epistemic),
            look.mark,
            ms=4,
            mfc="none",
            mew=0.8,
            color=look.colour,
            label=name or None,
        )
    known = [numbers(sets.floor) for sets in kinds.values() if sets.floor is not None] if floor else []
    if known and np.isfinite(np.concatenate(known)).any():
        level = float(np.nanmean(np.concatenate(known)))
        ax.axhline(level, color="0.4", lw=1, ls=":", label=f"Monte Carlo floor, {level:.2g}")
    ax.set(xlabel="aleatoric uncertainty (nats)", ylabel="epistemic uncertainty (nats)", ylim=(0, None))
    legend(ax)
    return ax


def rejection(curves: Rejection | Mapping[str, Rejection], ax: Axes | None = None) -> Axes:
    """Accuracy of what is kept when the most uncertain rows are not (`cbdl.evaluate.rejection`), one curve per name.

    The legend has the area under each curve; the dotted line is the accuracy on all rows.

    - `curves`: one, or several by name
    - `ax`: the Axes to draw on; None makes new ones

    >>> from cbdl import evaluate
    >>> ax = rejection(evaluate.rejection([True, True, False, True], [0.1, 0.2, 0.9, 0.3], draws=0))
    """
    known = by_name(curves, Rejection)
    ax = axes_for(ax)
    for look, (name, curve) in zip(looks(), known.items(), strict=False):
        label = f"{name + ', ' if name else ''}area {curve.area.value:.3f}"
        ax.plot(curve.rejected, curve.accuracy, color=look.colour, ls=look.stroke, lw=1.4, label=label)
    for start in {round(float(curve.accuracy[0]), 12) for curve in known.values()}:
        ax.axhline(start, color="0.4", lw=0.8, ls=":")
    ax.set(xlabel="share of rows rejected", ylabel="accuracy on the rest", xlim=(0, 1))
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, min(top, 1 + 0.02 * (1 - bottom)))  # a line at 1 is seen whole; nothing is above it
    legend(ax, ncols=2)
    return ax


def histogram(
    own: Scores,
    foreign: Scores | Mapping[str, Scores],
    ax: Axes | None = None,
    *,
    measure: str = "epistemic",
    bins: int = 30,
) -> Axes:
    """How uncertain a model is of rows like those of training (`own`) and of others (`foreign`), by one measure.

    Predictions, whose `measure` is taken (`cbdl.evaluate.uncertainties`), or one number per row. The dotted line is
    what 95 % of the own rows stay below.

    - `ax`: the Axes to draw on; None makes new ones
    - `bins`: how many

    >>> ax = histogram([0.1, 0.2, 0.1, 0.3], {"strange": [0.9, 0.8, 0.4]}, bins=5)
    """
    kinds = {"own": _scores(own, measure)} | {
        name: _scores(sets, measure) for name, sets in _foreign(foreign).items()
    }
    ax = axes_for(ax)
    edges = np.histogram_bin_edges(np.concatenate(list(kinds.values())), bins).tolist()
    for look, hatch, (name, scores) in zip(looks(), HATCHES, kinds.items(), strict=False):
        share = np.full(len(scores), 1 / len(scores))
        ax.hist(scores, edges, weights=share, histtype="stepfilled", facecolor="none", edgecolor=look.colour,
                hatch=hatch, lw=0, alpha=0.5)  # fmt: skip
        ax.hist(scores, edges, weights=share, histtype="step", color=look.colour, ls=look.stroke, lw=1.4,
                label=name)  # fmt: skip
    limit = float(np.quantile(kinds["own"], 0.95))
    ax.axvline(limit, color="0.3", lw=1, ls=":", label="95 % of own")
    ax.set(xlabel=f"{measure} uncertainty", ylabel="share of rows")
    legend(ax)
    return ax


def roc(
    own: Scores,
    foreign: Scores | Mapping[str, Scores],
    ax: Axes | None = None,
    *,
    measures: Sequence[str] = ("epistemic", "aleatoric", "total"),
) -> Axes:
    """Foreign rows that are found against own rows that are called foreign, as the limit falls; a curve per measure
    and foreign data set. The legend has the areas.

    - `own`: predictions of rows like those of training, or one number for each
    - `foreign`: those of other rows, or several by name
    - `ax`: the Axes to draw on; None makes new ones
    - `measures`: which uncertainties

    >>> ax = roc([0.1, 0.2, 0.1, 0.3], [0.9, 0.8, 0.2])
    """
    ax = axes_for(ax, (4.6, 4.2))
    ax.plot([0, 1], [0, 1], color="0.4", lw=0.8, ls=":")
    sets = _foreign(foreign)
    plain = isinstance(own, np.ndarray) and own.ndim == 1
    look = looks()
    for measure in ("score",) if plain else measures:
        inside = _scores(own, measure)
        for name, other in sets.items():
            outside, own_look = _scores(other, measure), next(look)
            scores = np.concatenate([inside, outside])
            positive = np.arange(len(scores)) >= len(inside)
            area = float(auroc(scores, positive)(np.ones((1, len(scores))))[0])
            label = ", ".join(
                [*([] if plain else [measure]), *([name] if len(sets) > 1 else []), f"{area:.3f}"]
            )
            ax.plot(*_roc(inside, outside), color=own_look.colour, ls=own_look.stroke, lw=1.4, label=label)
    ax.set(xlabel="own rows called foreign", ylabel="foreign rows found", aspect="equal")
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
    legend(ax, loc="lower right", title="area under the curve", title_fontsize=9)
    return ax


def _roc(inside: Floats, outside: Floats) -> tuple[Floats, Floats]:
    """Shares of own and of foreign rows at or above every limit, from none to all."""
    limits = np.unique(np.concatenate([inside, outside]))[::-1]
    shares = (
        1 - np.searchsorted(np.sort(scores), limits, side="left") / len(scores)
        for scores in (inside, outside)
    )
    false, found = (np.concatenate([[0.0], share]) for share in shares)
    return false, found


def _foreign(foreign: Any) -> dict[str, Any]:
    return {str(k): v for k, v in foreign.items()} if isinstance(foreign, Mapping) else {"foreign": foreign}


def _scores(given: Scores, measure: str) -> Floats:
    if isinstance(given, np.ndarray | Sequence) and not isinstance(given, str) and np.ndim(given) == 1:
        return np.asarray(given, np.float64)
    return uncertainties(prediction_of(given), [measure])[measure]


def reliability(results: Reliability | Mapping[str, Reliability], ax: Axes | None = None) -> Axes:
    """Accuracy against confidence in bins (`cbdl.evaluate.reliability`); on the diagonal a model is as good as it says.

    The area of a mark is the share of rows in its bin; the legend has the expected calibration error.

    - `results`: one, or several by name
    - `ax`: the Axes to draw on; None makes new ones

    >>> from cbdl import evaluate
    >>> probs = [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]
    >>> ax = reliability(evaluate.reliability(probs, [0, 1, 1], draws=0))
    """
    known = by_name(results, Reliability)
    ax = axes_for(ax, (4.4, 4.2))
    ax.plot([0, 1], [0, 1], color="0.4", lw=0.8, ls=":")
    for look, (name, own) in zip(looks(), known.items(), strict=False):
        full = own.rows > 0
        x, y, share = own.confidence[full], own.accuracy[full], own.rows[full] / own.rows.sum()
        label = f"{name + ', ' if name else ''}ECE {own.ece.value:.3f}"
        ax.plot(x, y, color=look.colour, ls=look.stroke, lw=1)
        ax.scatter(x, y, s=8 + 180 * share, marker=look.mark, color=look.colour, alpha=0.75, label=label)
    ax.set(xlabel="confidence", ylabel="accuracy", aspect="equal", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    legend(ax, markerscale=0.6)
    return ax


def severity(
    values: Mapping[str, Mapping[float, npt.ArrayLike]],
    ax: Axes | None = None,
    *,
    ylabel: str = "uncertainty (nats)",
) -> Axes:
    """How numbers of rows move with the severity of a shift: their mean as a line, their middle half as a band.

    values: by name of the measure, the rows' numbers (n,) at every severity.

    - `ax`: the Axes to draw on; None makes new ones
    - `ylabel`: what the numbers are

    >>> ax = severity({"epistemic": {0: [0.1, 0.2], 1: [0.2, 0.4], 2: [0.5, 0.6]}})
    """
    ax = axes_for(ax)
    every: set[float] = set()
    for look, (name, levels) in zip(looks(), values.items(), strict=False):
        if not levels:
            raise ValueError(f"values[{name!r}] has no severities; there is nothing to draw")
        at = sorted(levels)
        rows = [np.asarray(levels[s], dtype=np.float64).ravel() for s in at]
        low, high = (np.array([np.quantile(own, q) for own in rows]) for q in (0.25, 0.75))
        ax.fill_between(at, low, high, facecolor=look.colour, alpha=0.15, lw=0)
        ax.plot(at, [own.mean() for own in rows], color=look.colour, ls=look.stroke, marker=look.mark, ms=5,
                lw=1.4, label=name)  # fmt: skip
        every |= set(at)
    ax.set(xlabel="severity", ylabel=ylabel)
    if len(every) <= 12:
        ax.set_xticks(sorted(every))
    legend(ax)
    return ax
