"""Line-ups: which networks are trained on what view of the windows, by which method.

`PAPER` is the paper's: one architecture, mean-field posteriors that differ by their seeds. `VARIED` are four
architectures. `OURS`, at no higher cost, is meant for places that were never seen: each of its members does without a
quarter of the track, so that they disagree where the track has something new, and each has windows that it can be
judged by. What makes them good was found on the embedded track.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

import cbdl
from cbdl.bayes.methods import Ensemble, MeanField, Method
from cbdl.bayes.train import TrainingWarning
from cbdl.engines import Local
from cbdl.studies.racing.folds import Fold
from cbdl.studies.racing.forecasts import Forecast
from cbdl.studies.racing.views import Plain, View, residual_view
from cbdl.studies.racing.windows import HISTORY, Windows, joined, mirrored

DRAWS = 20
BATCH = 256
RATE = 2e-3

Make = Callable[[int, int], Callable[[], nn.Module]]
"""(inputs, outputs) -> a factory of networks."""


@dataclass(frozen=True)
class Recurrent:
    """A factory: an LSTM over the history, whose last state and the context go through a layer to the outputs."""

    inputs: int
    outputs: int
    hidden: int = 48

    def __call__(self) -> nn.Module:
        return _Recurrent(self.inputs, self.outputs, self.hidden)


class _Recurrent(nn.Module):
    def __init__(self, inputs: int, outputs: int, hidden: int) -> None:
        super().__init__()
        self.past = 4 * (HISTORY - 1)  # the present has a speed only
        self.lstm = nn.LSTM(4, hidden, batch_first=True)
        self.mix = nn.Linear(hidden + inputs - self.past, 2 * hidden)
        self.head = nn.Linear(2 * hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x[:, : self.past].reshape(len(x), -1, 4))
        mixed = torch.relu(self.mix(torch.cat([states[:, -1], x[:, self.past :]], dim=1)))
        out: Tensor = self.head(mixed)
        return out


def mlp(*hidden: int) -> Make:
    """Fully connected networks."""
    return lambda inputs, outputs: cbdl.nets.mlp(inputs, outputs, hidden=hidden)


@dataclass(frozen=True)
class LineUp:
    """Members: K priors times S networks, all with heteroscedastic Normal noise, on one view of the windows."""

    name: str
    view: Literal["plain", "residual"]
    nets: tuple[Make, ...]
    priors: tuple[cbdl.priors.Normal, ...]
    method: Callable[[int], Method] = field(repr=False)
    """From a number of epochs."""
    epochs: int
    mirror: bool = False
    """Also trained on mirrored windows, for half as many epochs."""
    by_fold: bool = False
    """One prior per fold: each member does without the windows of its own."""


PAPER = LineUp(
    "MF",
    "plain",
    (mlp(128, 128),),
    (cbdl.priors.Normal(0.0, 1.0),) * 4,
    lambda epochs: MeanField(epochs=epochs, batch_size=BATCH, lr=RATE),
    epochs=12,
)
VARIED = replace(
    PAPER,
    name="MF4",
    nets=(mlp(128), mlp(128, 128), mlp(64, 64, 64), Recurrent),
    priors=PAPER.priors[:1],
)
OURS = LineUp(
    "ours",
    "residual",
    (mlp(256, 256),),
    tuple(cbdl.priors.Normal(0.0, scale) for scale in (0.25, 0.5, 1.0, 2.0)),
    lambda epochs: Ensemble(epochs=epochs, batch_size=BATCH, lr=RATE, restarts=1),
    epochs=12,
    mirror=True,
    by_fold=True,
)
LINE_UPS = (PAPER, VARIED, OURS)


@dataclass(frozen=True)
class Trained:
    """A trained line-up: models whose members, one after the other, are those of its forecasts."""

    line_up: LineUp
    view: View
    models: tuple[cbdl.CBDL, ...]

    def forecast(self, windows: Windows, draws: int = DRAWS) -> Forecast:
        """Means and standard deviations of every member, from so many draws of its parameters."""
        parts = [self.forecast_by(i, windows, draws) for i in range(len(self.models))]
        return Forecast(
            *(np.concatenate([getattr(part, name) for part in parts], axis=1) for name in ("loc", "scale"))
        )

    def forecast_by(self, place: int, windows: Windows, draws: int = DRAWS) -> Forecast:
        """The forecast of one of the models alone."""
        inputs = self.view.inputs(windows).astype(np.float32)
        answer = self.models[place].predict(inputs, samples=draws, floor=False)
        return self.view.forecast(windows, np.asarray(answer.loc), np.asarray(answer.scale))


def train(
    line_up: LineUp, windows: Windows, folds: Sequence[Fold], seed: int, epochs: int | None = None
) -> Trained:
    """Train all members on the windows, or each on those that its fold leaves."""
    view: View = Plain(windows.future.shape[1]) if line_up.view == "plain" else residual_view(windows)
    length = line_up.epochs if epochs is None else epochs
    if not line_up.by_fold:
        return Trained(line_up, view, (_model(line_up, view, windows, line_up.priors, seed, length),))
    models = [
        _model(line_up, view, windows[fold.seen], (prior,), seed + 1000 * (i + 1), length)
        for i, (fold, prior) in enumerate(zip(folds, line_up.priors, strict=True))
    ]
    return Trained(line_up, view, tuple(models))


def _model(
    line_up: LineUp,
    view: View,
    windows: Windows,
    priors: Sequence[cbdl.priors.Normal],
    seed: int,
    epochs: int,
) -> cbdl.CBDL:
    rows = joined(windows, mirrored(windows)) if line_up.mirror else windows
    inputs, targets = view.inputs(rows).astype(np.float32), view.targets(rows)
    outputs = 2 * view.targets_per_row
    model = cbdl.CBDL(
        priors=priors,
        likelihoods=[
            cbdl.likelihoods.Normal(make(inputs.shape[1], outputs), scale="heteroscedastic")
            for make in line_up.nets
        ],
        method=line_up.method(max(1, epochs // 2 if line_up.mirror else epochs)),
        seed=seed,
        engine=Local(),
        verbose=False,
    )
    with warnings.catch_warnings():
        # As many epochs as the profile has, for all line-ups: that more would help is known.
        warnings.simplefilter("ignore", TrainingWarning)
        return model.fit(inputs, targets)
