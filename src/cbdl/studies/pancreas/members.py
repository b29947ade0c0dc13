"""Line-ups: which Bayesian networks forecast glucose, trained together, with what validation windows say of them.

`SEEDS` and `WIDTHS` are the paper's rows: mean-field posteriors of four seeds of one architecture, and of four
architectures. `OURS` has, at no higher cost, sampled members that differ by their priors, those that the data do not
refute, calibrated regions, and doses that reach further back; `DOUBTFUL` has the same networks with two likelihoods of
what nobody announced.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import cbdl
from cbdl.bayes.diagnostics import CollapseWarning
from cbdl.bayes.methods import MCLMC, MeanField, Method
from cbdl.bayes.plausible import judge
from cbdl.bayes.train import TrainingWarning
from cbdl.engines import Local
from cbdl.evaluate.conformal import conformity
from cbdl.studies.pancreas.data import WINDOW, training_windows
from cbdl.studies.pancreas.disturbances import HALVES, NONE, STAYS, Course
from cbdl.studies.pancreas.forecasts import halfwidth, halfwidth_at
from cbdl.studies.pancreas.history import Mask
from cbdl.studies.pancreas.networks import Networks
from cbdl.studies.pancreas.patients import Array

ALPHAS = (0.1, 0.05, 0.01)
BATCH, RATE = 128, 1e-3
"""The paper's."""
DRAWS = 4
"""Frozen draws of every member."""
PLAUSIBLE = 0.05
VALIDATION = 1_000_003
"""Added to the seed of training episodes for those of validation."""


@dataclass(frozen=True)
class LineUp:
    """K priors times S architectures (widths of hidden layers), all with a learned noise scale."""

    name: str
    hidden: tuple[tuple[int, ...], ...]
    scales: tuple[float, ...]
    """Of the Normal priors; equal ones differ by their seeds."""
    method: Callable[[int], Method] = field(repr=False)
    """From a number of epochs."""
    calibrated: bool = False
    """Whether regions get the level that validation windows ask for, and refuted members are left out."""
    block: int = 1
    """Steps of each dose of a window."""
    courses: tuple[Course, ...] = (HALVES,)
    """What may become of a forecast error."""
    reach: float = 1.5
    """How far from basal doses may be, in units of how far they were in training."""
    like: str | None = None
    """The line-up whose networks these are; None: they are trained for this one."""

    @property
    def trained_as(self) -> str:
        """The line-up whose networks these are."""
        return self.name if self.like is None else self.like

    def model(self, epochs: int, seed: int) -> cbdl.CBDL:
        """Not trained yet."""
        return cbdl.CBDL(
            priors=[cbdl.priors.Normal(0.0, scale) for scale in self.scales],
            likelihoods=[
                cbdl.likelihoods.Normal(cbdl.nets.mlp(2 * WINDOW, 1, hidden=own), scale="learned")
                for own in self.hidden
            ],
            method=self.method(epochs),
            seed=seed,
            engine=Local(),
            verbose=False,
        )


def mean_field(epochs: int) -> Method:
    return MeanField(epochs=epochs, batch_size=BATCH, lr=RATE)


def sampled(epochs: int) -> Method:
    """Two chains of microcanonical Langevin Monte Carlo, of full length for the paper's 200 epochs.

    On validation windows of two patients that are not reported, one chain had an NLL of 3.82 and 3.84 nats, mean field
    of 20 epochs 3.84 and 3.89. Point estimates (`Ensemble`) took longer than mean field and were no better.
    """
    share = min(1.0, epochs / 200)
    return MCLMC(
        chains=2,
        draws=max(DRAWS, round(50 * share)),
        warmup=max(20, round(1250 * share)),
        optimise=max(20, round(3000 * share)),
        batch_size=BATCH,
    )


SEEDS = LineUp("MF seeds", ((10, 10),), (1.0,) * 4, mean_field)
WIDTHS = LineUp("MF widths", tuple((w, w) for w in (10, 20, 30, 40)), (1.0,), mean_field)
OURS = LineUp(
    "ours",
    ((10, 10),),
    (0.5, 1.0, 2.0, 4.0),
    sampled,
    calibrated=True,
    block=4,
    reach=3.5,
)
DOUBTFUL = replace(OURS, name="ours, 2 courses", courses=(NONE, STAYS), like=OURS.name)
"""The same networks, each with two likelihoods of what a forecast error is."""
LINE_UPS = (SEEDS, WIDTHS, OURS, DOUBTFUL)


@dataclass(frozen=True, eq=False)
class Trained:
    """The frozen networks of one patient, and what validation windows say."""

    networks: Networks
    kept: Mask
    """(m,): members that the data do not refute."""
    halfwidths: Array
    """Of every one of `ALPHAS`: standard deviations to the ends of regions."""
    scores: dict[str, float]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of it by name; `from_arrays` reads it."""
        return {
            **{f"networks/{name}": own for name, own in self.networks.arrays().items()},
            "kept": self.kept,
            "halfwidths": self.halfwidths,
            "names": np.array(list(self.scores)),
            "scores": np.array(list(self.scores.values())),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Trained:
        """The inverse of `arrays`."""
        start = "networks/"
        networks = {k.removeprefix(start): own for k, own in arrays.items() if k.startswith(start)}
        scores = dict(zip(arrays["names"].tolist(), arrays["scores"].tolist(), strict=True))
        return cls(Networks.from_arrays(networks), arrays["kept"], arrays["halfwidths"], scores)


def train(line_up: LineUp, patient: str, samples: int, epochs: int, seed: int) -> Trained:
    """All members at once on windows of the patient without meals; judged on windows of other episodes."""
    windows = training_windows(patient, samples, seed=seed, block=line_up.block)
    held_out = training_windows(patient, max(200, samples // 6), seed=seed + VALIDATION, block=line_up.block)
    with warnings.catch_warnings():
        # the paper fixes the number of epochs, whether or not members still improve
        warnings.simplefilter("ignore", TrainingWarning)
        warnings.simplefilter("ignore", CollapseWarning)
        model = line_up.model(epochs, seed).fit(windows.inputs, windows.targets)
    prediction = model.predict(held_out.inputs, DRAWS, predictive="normal")
    loc, scale = np.asarray(prediction.loc), np.asarray(prediction.scale)
    nll = 0.5 * np.log(2 * np.pi * scale**2) + 0.5 * ((held_out.targets[:, None] - loc) / scale) ** 2
    kept = plausible(model, nll) if line_up.calibrated else np.ones(nll.shape[1], dtype=bool)
    halfwidths = regions(loc[:, kept], scale[:, kept], held_out.targets, line_up.calibrated)
    scores = {
        "rmse": float(np.sqrt(np.mean((held_out.targets - loc[:, kept].mean(1)) ** 2))),
        "nll_best": float(nll.mean(0).min()),
        "nll_worst": float(nll.mean(0).max()),
        "members": float(kept.sum()),
        **_coverage(loc[:, kept], scale[:, kept], held_out.targets, halfwidths),
    }
    return Trained(Networks.of(model, DRAWS), kept, halfwidths, scores)


def plausible(model: cbdl.CBDL, nll: Array) -> Mask:
    """(m,): which members validation windows, with these NLL (n, m), do not refute; the best two at least, so that
    there is a set."""
    verdicts = judge(model.learned.members, torch.from_numpy(-nll), torch.ones(len(nll)), PLAUSIBLE).verdicts
    own = np.array([v.plausibility for v in verdicts])
    return np.asarray((own >= PLAUSIBLE) | (own >= np.sort(own)[-2]))


def regions(loc: Array, scale: Array, y: Array, calibrated: bool) -> Array:
    """The half width of regions for every one of `ALPHAS`: of the level 1 - alpha, or of the level that a share of
    1 - alpha of the outcomes `y` (n,) of Normals (n, m) asks for."""
    if not calibrated:
        return np.array([halfwidth(alpha) for alpha in ALPHAS])
    levels = conformity(cbdl.NormalCredalSet(loc, scale), y)
    return np.array([halfwidth_at(levels.needed(a)) if levels.enough(a) else halfwidth(a) for a in ALPHAS])


def _coverage(loc: Array, scale: Array, y: Array, halfwidths: Array) -> dict[str, float]:
    """Coverage and mean width of the IHDR."""
    own = {}
    for alpha, z in zip(ALPHAS, halfwidths, strict=True):
        low, high = (loc - z * scale).min(1), (loc + z * scale).max(1)
        own[f"coverage_{alpha:g}"] = float(np.mean((y >= low) & (y <= high)))
        own[f"width_{alpha:g}"] = float(np.mean(high - low))
    return own
