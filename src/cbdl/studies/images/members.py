"""Members: which networks are trained, one by one, for all lines of the comparison.

Mean-field members are the paper's: priors of one family that differ by their seed. Ordinary members are the modes of
one prior, each from its own start: the deep ensemble, and the networks of ours. Robust ones learn from the worst share
of every batch. One network learns with dropout masks. All of them have the same architecture and epochs.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn

import cbdl
from cbdl.bayes.methods import Dropout, Ensemble, MeanField, Method
from cbdl.bayes.train import TrainingWarning
from cbdl.data import Images
from cbdl.engines import Local
from cbdl.studies.images.varied import Varied

LineUp = Literal["mean field", "ordinary", "robust", "dropout"]
LINE_UPS: dict[LineUp, int] = {"ordinary": 4, "robust": 4, "mean field": 4, "dropout": 1}
"""How many members each has, in the order of training."""
PRIOR = cbdl.priors.Normal(0.0, 1.0)

TRIAL = """import torch
x = torch.ones(128, 64, dtype=torch.bfloat16)
torch.nn.functional.linear(x, x)
torch.nn.functional.conv2d(x.view(32, 16, 4, 4), x.view(-1, 16, 1, 1))
"""
"""What a process must survive where members learn in bfloat16."""

Net = Literal["lenet", "resnet8", "resnet20"]


@dataclass(frozen=True)
class Training:
    """How members are trained."""

    net: Net
    epochs: int
    rate: float
    batch: int = 128
    schedule: Literal["cosine", "one-cycle"] = "cosine"
    temperature: float = 1.0
    """Of the mean-field members: the weight of KL(q || prior) / N; 1 is Bayes' rule."""
    initial_scale: float = 0.01
    """Of the mean-field members: the standard deviation that every parameter starts with."""
    dropout: float = 0.1
    least: float = 0.5
    """Of the robust members: the smallest share of worst rows that one of them learns from."""
    half: bool = False
    """Whether convolutions are trained in bfloat16, where the processor has it; parameters stay in single precision."""
    mirrored: bool = False
    moved: int = 0
    """How rows vary from epoch to epoch (`Varied`)."""


def net_for(name: Net, images: Images) -> Callable[[], nn.Module]:
    """The architecture for images of this colour and size."""
    channels, side = images.x.shape[1], images.x.shape[-1]
    if name == "lenet":
        return cbdl.nets.lenet(images.classes, channels, side)
    make = {"resnet8": cbdl.nets.resnet8, "resnet20": cbdl.nets.resnet20}[name]
    return make(images.classes, channels)


@dataclass(frozen=True)
class Scale:
    """Bytes to numbers around 0: channel by channel, with mean and deviation of the training rows."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def of(cls, images: Images) -> Scale:
        x = images.x.double().div_(255).transpose(0, 1).flatten(1)
        return cls(tuple(x.mean(1).tolist()), tuple(x.std(1).tolist()))

    def __call__(self, images: Images) -> Tensor:
        """(n, channels, side, side) float32."""
        mean, deviation = (torch.tensor(v).view(1, -1, 1, 1) for v in (self.mean, self.deviation))
        return (images.floats() - mean) / deviation


def model_for(line_up: LineUp, place: int, how: Training, images: Images, seed: int) -> cbdl.CBDL:
    """The untrained member number `place` of a line-up."""
    net = net_for(how.net, images)
    own = 1000 * seed + place
    plain = cbdl.likelihoods.Categorical(net)
    prior: cbdl.bayes.priors.PriorLike = PRIOR
    method: Method = Ensemble(how.epochs, how.batch, how.rate, restarts=1, schedule=how.schedule)
    if line_up == "mean field":
        prior = cbdl.priors.seeded(PRIOR, LINE_UPS[line_up], seed=1000 * seed)[place]
        method = MeanField(
            how.epochs,
            how.batch,
            how.rate,
            temperature=how.temperature,
            schedule=how.schedule,
            initial_scale=how.initial_scale,
        )
    elif line_up == "robust":
        plain = cbdl.constructions.robust(net, LINE_UPS[line_up], how.least)[place]
        own += 100
    elif line_up == "dropout":
        method = Dropout(how.epochs, how.batch, how.rate, p=how.dropout, schedule=how.schedule)
        own += 200
    return cbdl.CBDL(
        [prior],
        [plain],
        method,
        seed=own,
        standardize=False,
        engine=Local(),
        device=device(),
        verbose=False,
    )


def device() -> str:
    """Where members are trained and asked: a graphics processor if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def trained(line_up: LineUp, place: int, how: Training, images: Images, seed: int) -> cbdl.CBDL:
    """A member that has learned from the images."""
    model = model_for(line_up, place, how, images, seed)
    x = Scale.of(images)(images)
    with warnings.catch_warnings():
        # As many epochs as the profile has, for everyone: that more would help is known.
        warnings.simplefilter("ignore", TrainingWarning)
        with torch.autocast("cpu", torch.bfloat16, enabled=how.half and half_precision()):
            if how.mirrored or how.moved:
                return model.fit(Varied(x, images.y, how.mirrored, how.moved), stream=True)
            return model.fit(x, images.y)


@cache
def half_precision() -> bool:
    """Whether torch has fast kernels in bfloat16 for this processor, and they run.

    Some virtual machines name instructions that end a process: so another process tries.
    """
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    return subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, check=False).returncode == 0
