"""Several priors at once: the extreme elements of a prior credal set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from .families import Normal
from .placed import Centred, Pretrained
from .prior import Prior, PriorLike


def grid(
    loc: Sequence[float] = (-1.0, 0.0, 1.0),
    scale: Sequence[float] = (math.sqrt(3), math.sqrt(7)),
    **options: bool,
) -> list[Normal]:
    """Normal priors for all pairs: negative, no and positive bias, thin and fat tails (Section 3.1).

    The paper's example has variances 3 and 7; `scale` is a standard deviation, so the defaults are their
    roots.

    - `loc`: the centres
    - `options`: further settings of every `Normal`, such as fan_in=True

    >>> [(p.loc, p.scale) for p in grid(loc=[-1, 0], scale=[1, 3])]
    [(-1, 1), (-1, 3), (0, 1), (0, 3)]
    """
    return [Normal(a, b, **options) for a in loc for b in scale]


def seeded(prior: PriorLike, n: int, *, seed: int = 0) -> list[PriorLike]:
    """n priors of one family that differ by their seed, as in the paper's experiments (Section 4).

    What is drawn: for prior i = 0, ..., n - 1 a vector theta_i of P independent draws, one per coordinate, from
    `prior` itself (its location, scale and fan-in option; stream (seed + i, parameter name)). Prior i is
    `prior` with its location replaced by theta_i; scale and shape stay as given. So prior i is centred at one
    network that `prior` would have drawn. Nothing else is random.

    - `n`: how many priors
    - `seed`: of the first of them

    >>> seeded(Normal(0.0, 1.0), 2)[1]
    Centred(prior=Normal(loc=0.0, scale=1.0, fan_in=False), seed=1)
    """
    if n < 1:
        raise ValueError(f"seeded: n is {n}; ask for at least one prior")
    if isinstance(prior, Prior):
        return [Centred(prior, seed + i) for i in range(n)]
    return [{pattern: Centred(p, seed + i) for pattern, p in prior.items()} for i in range(n)]


def pretrained(state: Mapping[str, Tensor], *, delta: float = 0.1, floor: float = 1e-3) -> Pretrained:
    """Empirical Bayes from a pretrained `state_dict` (MOPED): ``Normal(w, max(delta |w|, floor))`` for every
    weight w.

    - `state`: the parameters by name
    - `delta`: the scale of a weight, as a share of it
    - `floor`: the least scale

    >>> from torch import nn
    >>> pretrained(nn.Linear(3, 2).state_dict())
    Pretrained(delta=0.1, floor=0.001)
    """
    return Pretrained(state, delta, floor)
