"""What a model is made of, checked where the user gives it: a message names the argument, the place and the remedy."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import nn

from .likelihoods import Likelihood, agree
from .priors import Prior, PriorLike


def check_priors(priors: Sequence[PriorLike]) -> tuple[PriorLike, ...]:
    """The priors as a tuple; a TypeError or ValueError unless they are a list of them."""
    _check_list(priors, "priors", "cbdl.priors.Normal(0, 1)", Prior | Mapping)
    for k, prior in enumerate(priors):
        if not isinstance(prior, Prior | Mapping):
            raise TypeError(
                f"priors[{k}] is {prior!r}; give a prior such as cbdl.priors.Normal(0, 1), or a mapping from patterns "
                "of parameter names to priors"
            )
    return tuple(priors)


def check_likelihoods(likelihoods: Sequence[Likelihood]) -> tuple[Likelihood, ...]:
    """The likelihoods as a tuple; a TypeError or ValueError unless they are a list of them about one space."""
    _check_list(likelihoods, "likelihoods", "cbdl.likelihoods.Categorical(net)", Likelihood | nn.Module)
    for s, likelihood in enumerate(likelihoods):
        if not isinstance(likelihood, Likelihood):
            raise TypeError(
                f"likelihoods[{s}] is {_short(likelihood)}; a network alone does not say what its outputs mean: give "
                "cbdl.likelihoods.Categorical(net) for classes, cbdl.likelihoods.Normal(net) for numbers"
            )
        if not callable(likelihood.net):
            raise TypeError(
                f"likelihoods[{s}] has the net {likelihood.net!r:.80}; give a function that makes it, or a module"
            )
    agree(tuple(likelihoods))
    return tuple(likelihoods)


def check_seed(seed: int) -> int:
    """`seed` as a plain int: one of numpy's names the same streams. Saved models hold 64 bits of it."""
    try:
        whole = operator.index(seed)
    except TypeError:
        raise TypeError(f"seed is {seed!r}; give a whole number") from None
    if not -(1 << 63) <= whole < 1 << 63:
        raise ValueError(f"seed is {seed}; give a whole number below {1 << 63}")
    return whole


def check_flag(value: object, name: str) -> bool:
    """`value` as True or False; a TypeError if it is neither: the word "no" would count as True."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {value!r}; give True or False")
    return bool(value)


def check_dtype(dtype: torch.dtype) -> torch.dtype:
    """`dtype`; a TypeError unless it is one of torch's floating types."""
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"dtype is {dtype!r}; give torch.float32 or torch.float64")
    return dtype


def _check_list(given: object, name: str, example: str, one: object) -> None:
    if isinstance(given, one) or not isinstance(given, Sequence) or isinstance(given, str):  # type: ignore[arg-type]
        raise TypeError(f"{name} is {_short(given)}; give a list: {name}=[{example}, ...]")
    if not given:
        raise ValueError(f"{name} is empty; give at least one, for example {example}")


def _short(value: object) -> str:
    return f"a {type(value).__name__}" if isinstance(value, nn.Module) else repr(value)
