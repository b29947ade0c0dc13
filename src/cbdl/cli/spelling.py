"""Priors and networks as they are spelled on the command line."""

from __future__ import annotations

from cbdl.bayes import priors
from cbdl.tables.errors import UsageError

PRIORS: dict[str, tuple[type[priors.Prior], str]] = {
    "normal": (priors.Normal, "normal:LOC:SCALE"),
    "laplace": (priors.Laplace, "laplace:LOC:SCALE"),
    "cauchy": (priors.Cauchy, "cauchy:LOC:SCALE"),
    "student-t": (priors.StudentT, "student-t:DF:LOC:SCALE"),
    "horseshoe": (priors.Horseshoe, "horseshoe:SCALE"),
}


def parse_prior(text: str) -> priors.Prior:
    """A prior from its spelling on the command line.

    >>> parse_prior("normal:0:3")
    Normal(loc=0.0, scale=3.0, fan_in=False)
    """
    name, *numbers = text.split(":")
    if name not in PRIORS:
        known = ", ".join(spelling for _, spelling in PRIORS.values())
        raise UsageError(f"{text!r} is not a prior; write one of {known}")
    make, spelling = PRIORS[name]
    if len(numbers) > spelling.count(":"):
        raise UsageError(f"{text!r} has too many numbers; write {spelling}")
    try:
        return make(*(float(n) for n in numbers))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{text!r}: {error}; write {spelling}") from None


def parse_net(text: str) -> tuple[int, ...]:
    """The hidden layers of a network from its spelling on the command line.

    >>> parse_net("mlp:64,32")
    (64, 32)
    """
    name, _, sizes = text.partition(":")
    try:
        hidden = tuple(int(n) for n in sizes.split(",")) if sizes else ()
    except ValueError:
        hidden = (0,)
    if name != "mlp" or any(n < 1 for n in hidden):
        raise UsageError(f"{text!r} is not a network; write mlp:64,64 (two hidden layers) or mlp (none)")
    return hidden
