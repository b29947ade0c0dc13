"""Other ways to a credal set over classes, from any members or logits, for comparison with the paper's."""

from cbdl.constructions.background import Background, background, with_background
from cbdl.constructions.decalibrated import Decalibration, decalibration
from cbdl.constructions.relative_likelihood import relative_likelihood, relative_likelihoods
from cbdl.constructions.robust import robust
from cbdl.constructions.trimmed import trimmed
from cbdl.constructions.wrapper import wrapper

__all__ = [
    "Background",
    "Decalibration",
    "background",
    "decalibration",
    "relative_likelihood",
    "relative_likelihoods",
    "robust",
    "trimmed",
    "with_background",
    "wrapper",
]


def __dir__() -> list[str]:
    return sorted(__all__)
