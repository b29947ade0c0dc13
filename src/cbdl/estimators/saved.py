"""Estimators as folders: the model as `cbdl.load` reads it, and beside it what makes it an estimator. Never pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbdl.evaluate.conformal import Conformity
from cbdl.store import ModelError

ELSEWHERE = ("priors", "method", "engine", "device")
"""Settings that the model itself keeps, or that say where it is trained."""


def described(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an estimator as JSON; a ValueError names one that a folder cannot hold."""
    own = {name: value for name, value in settings.items() if name not in ELSEWHERE}
    own |= {name: settings[name] is not None for name in ("priors", "method")}
    given = own["architectures"]
    if given is not None:
        own["architectures"] = [None if callable(one) else [int(n) for n in one] for one in given]
    if isinstance(own.get("class_weight"), Mapping):
        own["class_weight"] = [[_plain(label), float(w)] for label, w in own["class_weight"].items()]
    if not isinstance(own["random_state"], int | np.integer | None):
        own["random_state"] = None  # the state of a generator is gone with the fit
    for name, value in own.items():
        try:
            own[name] = json.loads(json.dumps(value, default=_plain, allow_nan=False))
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} is {value!r}, which a folder cannot hold; give it as plain numbers"
            ) from None
    return own


def settings_of(saved: Mapping[str, Any], given: Sequence[Any] | None) -> dict[str, Any]:
    """The arguments of the constructor, from what `described` wrote; priors and method come with the model."""
    own = {**saved, "priors": None, "method": None}
    if given is not None:
        own["architectures"] = given
    elif own["architectures"] is not None:
        if None in own["architectures"]:
            raise ModelError(
                "some architectures are functions of your own, which a folder does not hold; give them again: "
                "load(path, architectures=[...])"
            )
        own["architectures"] = [tuple(one) for one in own["architectures"]]
    if isinstance(own.get("class_weight"), list):
        own["class_weight"] = dict(own["class_weight"])
    if isinstance(own.get("noise"), list):
        own["noise"] = tuple(own["noise"])
    return own


def array_to_json(values: NDArray[Any]) -> dict[str, Any]:
    """Labels with their type."""
    return {"dtype": values.dtype.str, "values": [_plain(v) for v in values.tolist()]}


def array_from_json(given: Mapping[str, Any]) -> NDArray[Any]:
    """The inverse of `array_to_json`."""
    return np.array(given["values"], dtype=object if given["dtype"] == "|O" else np.dtype(given["dtype"]))


def conformity_from_json(given: Any) -> Conformity | None:
    """What the manifest says about calibration."""
    return None if given is None else Conformity.from_json(given)


def _plain(value: Any) -> Any:
    """A Python number or word of a numpy one."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{value!r} is no number and no word")
