"""Line-ups: which Bayesian networks forecast glucose, trained together, with what validation windows say of them.

`SEEDS` and `WIDTHS` are the paper's rows: mean-field posteriors of four seeds of one architecture, and of four
architectures. `OURS` has, at no higher cost, members that differ by their priors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

import cbdl
from cbdl.bayes.diagnostics import CollapseWarning
from cbdl.bayes.methods import Ensemble, MeanField, Method
from cbdl.bayes.plausible import judge
from cbdl.bayes.train import TrainingWarning
from cbdl.evaluate.conformal import conformity
from cbdl.studies.pancreas.data import WINDOW, Windows, training_windows
from cbdl.studies.pancreas.forecasts import halfwidth, halfwidth_at
from cbdl.studies.pancreas.networks import Networks

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
            engine=cbdl.engines.Local(),
            verbose=False,
        )


def mean_field(epochs: int) -> Method:
    return MeanField(epochs=epochs, batch_size=BATCH, lr=RATE)


def ensemble(epochs: int) -> Method:
    return Ensemble(epochs=epochs, batch_size=BATCH, lr=RATE, restarts=1)


SEEDS = LineUp("MF seeds", ((10, 10),), (1.0,) * 4, mean_field)
WIDTHS = LineUp("MF widths", tuple((w, w) for w in (10, 20, 30, 40)), (1.0,), mean_field)
OURS = LineUp("ours", ((10, 10),), (0.5, 1.0, 2.0, 4.0), ensemble, calibrated=True)
LINE_UPS = (SEEDS, WIDTHS, OURS)


@dataclass(frozen=True, eq=False)
class Trained:
    """The frozen networks of one patient, and what validation windows say."""

    networks: Networks
    halfwidths: dict[float, float]
    """By alpha: standard deviations to the ends of regions."""
    scores: dict[str, float]

    @property
    def members(self) -> int:
        return self.networks.members


def train(line_up: LineUp, patient: str, samples: int, epochs: int, seed: int) -> Trained:
    """All members at once on windows of the patient without meals; judged on windows of other episodes."""
    windows = training_windows(patient, samples, seed=seed)
    held_out = training_windows(patient, max(200, samples // 6), seed=seed + VALIDATION)
    with warnings.catch_warnings():
        # the paper fixes the number of epochs, whether or not members still improve
        warnings.simplefilter("ignore", TrainingWarning)
        warnings.simplefilter("ignore", CollapseWarning)
        model = line_up.model(epochs, seed).fit(windows.inputs, windows.targets)
    if line_up.calibrated:
        drop_refuted(model, held_out)
    return validated(model, line_up, held_out)


def drop_refuted(model: cbdl.CBDL, windows: Windows) -> None:
    """Leave out members that validation windows refute; two of them stay, so that there is a set."""
    score = torch.from_numpy(-_nll(model, windows))
    verdicts = judge(model.learned.members, score, torch.ones(len(score)), PLAUSIBLE).verdicts
    ranked = sorted(verdicts, key=lambda v: -v.plausibility)
    out = [(v.member.k, v.member.s) for v in ranked[2:] if not v.kept]
    if out:
        model.drop(out)


def _nll(model: cbdl.CBDL, windows: Windows) -> np.ndarray:
    """(n, m) nats."""
    own = model.predict(windows.inputs, DRAWS, predictive="normal")
    loc, scale = np.asarray(own.loc), np.asarray(own.scale)
    z = (windows.targets[:, None] - loc) / scale
    return np.asarray(0.5 * np.log(2 * np.pi * scale**2) + 0.5 * z**2)


def validated(model: cbdl.CBDL, line_up: LineUp, windows: Windows) -> Trained:
    """With the half widths of regions and the scores of validation windows."""
    prediction = model.predict(windows.inputs, DRAWS, predictive="normal")
    levels = conformity(prediction, windows.targets)
    halfwidths = {
        alpha: halfwidth_at(levels.needed(alpha))
        if line_up.calibrated and levels.enough(alpha)
        else halfwidth(alpha)
        for alpha in ALPHAS
    }
    networks = Networks.of(model, DRAWS)
    middle = np.asarray(prediction.loc).mean(1)
    nll = _nll(model, windows)
    scores = {
        "rmse": float(np.sqrt(np.mean((windows.targets - middle) ** 2))),
        "nll_best": float(nll.mean(0).min()),
        "nll_worst": float(nll.mean(0).max()),
        "members": float(networks.members),
        **_regions(prediction, windows, halfwidths),
    }
    return Trained(networks, halfwidths, scores)


def _regions(prediction: cbdl.CredalSet, windows: Windows, halfwidths: dict[float, float]) -> dict[str, float]:
    """Coverage and mean width of the IHDR."""
    loc, scale = np.asarray(prediction.loc), np.asarray(prediction.scale)
    own = {}
    for alpha, z in halfwidths.items():
        low, high = (loc - z * scale).min(1), (loc + z * scale).max(1)
        own[f"coverage_{alpha:g}"] = float(np.mean((windows.targets >= low) & (windows.targets <= high)))
        own[f"width_{alpha:g}"] = float(np.mean(high - low))
    return own
