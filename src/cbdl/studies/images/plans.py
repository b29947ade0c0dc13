"""Plans: how much of the study each profile runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cbdl.studies.images.members import LineUp, Training
from cbdl.studies.images.sources import SOURCES, STAND_IN, Sizes
from cbdl.studies.study import Profile


@dataclass(frozen=True)
class Plan:
    """A profile: how members are trained on each source, on how many rows they are asked, and with how many seeds."""

    trainings: dict[str, Training]
    sizes: dict[str, Sizes]
    seeds: int = 1
    workers: int = 1

    def training(self, source: str, line_up: LineUp) -> Training:
        """How the members of a line-up are trained; what others alone have is as by default, so that a change of it
        trains nobody else anew."""
        own = self.trainings[source]
        theirs: dict[str, LineUp] = {
            "temperature": "mean field",
            "initial_scale": "mean field",
            "dropout": "dropout",
            "least": "robust",
        }
        usual = {name: getattr(Training, name) for name, whose in theirs.items() if whose != line_up}
        return replace(own, **usual)


_GREY = Training("lenet", 6, 2e-3)
_COLOUR = Training(
    "resnet8", 12, 1e-2, schedule="one-cycle", temperature=0.01, dropout=0.01, least=0.8, half=True, moved=2
)
"""Mean-field members at temperature 1 learn too little in so few epochs: of validation rows of CIFAR-10 they have 57 to
61 % right, at 0.1 72.6 %, at 0.01 74.0 %, which is what deterministic networks have. With dropout at a rate of 0.05
they have 70.5 %, at 0.02 72.0 %, at 0.01 73.9 %. The robust member of the worst 80 % has 74.6 % right where ordinary
ones have 74.3 to 74.8 %; that of the worst half was 4.7 points behind."""
_NARROW = 0.001
"""What every parameter of mean-field members of CIFAR-10 starts with as its standard deviation: of 8,000 validation
rows, after 10,000 training rows, four of them have 68.2 % right, deterministic networks 68.5 %; from 0.01, which is two
fifths of the deviation of the weights that the widest layer starts with, 67.1 %. They grow, to 0.01 in the mean."""
_LEARNING = {
    "mnist": _GREY,
    "fashion": _GREY,
    "cifar": replace(_COLOUR, mirrored=True, initial_scale=_NARROW),
    "svhn": _COLOUR,  # the mirror image of a digit is none
}
_MANY = Sizes(corrupted=300, shifted=1000)
_FEW = Sizes(foreign=800, corrupted=100, shifted=1000)
_PAPER = Training("resnet20", 200, 1e-3)
_DIGITS = Training("lenet", 4, 1e-2, batch=64)

PLANS: dict[Profile, Plan] = {
    "smoke": Plan({STAND_IN: _DIGITS}, {STAND_IN: Sizes(None, 200, 120, 120, 40, 40)}),
    "cpu": Plan(
        _LEARNING | {STAND_IN: _DIGITS},
        {name: _MANY if own.grey else _FEW for name, own in SOURCES.items()} | {STAND_IN: Sizes()},
        workers=2,
    ),
    "paper": Plan(
        dict.fromkeys((*SOURCES, STAND_IN), _PAPER),
        dict.fromkeys((*SOURCES, STAND_IN), Sizes()),
        seeds=3,
        workers=1,
    ),
}
