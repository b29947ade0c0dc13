"""Settings as JSON and back: frozen dataclasses of a fixed list, numbers, text and tensors. Nothing else, no code.

A dataclass becomes {"type": its name, field: value, ...}; a tensor becomes {"tensor": key} and goes into a table
beside the JSON; a tuple becomes a list. Reading builds only classes of the list, with their own checks.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from torch import Tensor

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.methods import METHODS
from cbdl.bayes.methods.divergences import KL, ChiSquared, Renyi
from cbdl.nets import Net


class CodecError(ValueError):
    """A value that cannot be written, or a description that cannot be read."""


def _list(prefix: str, *classes: type) -> dict[str, type]:
    return {f"{prefix}.{c.__name__}": c for c in classes}


CLASSES: dict[str, type] = {
    **_list(
        "prior",
        priors.Normal,
        priors.Laplace,
        priors.StudentT,
        priors.Cauchy,
        priors.ScaleMixture,
        priors.Horseshoe,
        priors.RegularisedHorseshoe,
        priors.Centred,
        priors.Pretrained,
        priors.Coordinates,
    ),
    **_list(
        "likelihood",
        likelihoods.Categorical,
        likelihoods.Bernoulli,
        likelihoods.Poisson,
        likelihoods.Normal,
        likelihoods.Laplace,
        likelihoods.StudentT,
    ),
    **_list("method", *METHODS),
    **_list("divergence", KL, Renyi, ChiSquared),
}
_NAMES = {c: name for name, c in CLASSES.items()}


def encode(value: Any, tensors: dict[str, Tensor], place: str) -> Any:
    """`value` as JSON; its tensors are added to `tensors` under keys that start with `place`.

    >>> encode(priors.Normal(0.0, 2.0), {}, "priors")
    {'type': 'prior.Normal', 'loc': 0.0, 'scale': 2.0, 'fan_in': False}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise CodecError(f"{place} is {value}; only finite numbers can be saved")
        return value
    if isinstance(value, Tensor):
        tensors[place] = value
        return {"tensor": place}
    if isinstance(value, Net):
        return {"type": "net", "name": value.name, "settings": dict(value.settings)}
    if type(value) in _NAMES:
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        coded = {name: encode(item, tensors, f"{place}.{name}") for name, item in fields.items()}
        return {"type": _NAMES[type(value)], **coded}
    if isinstance(value, Mapping):
        return {"map": {str(k): encode(v, tensors, f"{place}.{k}") for k, v in value.items()}}
    if isinstance(value, list | tuple):
        return [encode(item, tensors, f"{place}.{i}") for i, item in enumerate(value)]
    if callable(value):
        name = getattr(value, "__qualname__", type(value).__name__)
        return {"type": "user-net", "name": str(name)}
    raise CodecError(f"{place} is {value!r}, which a saved model cannot hold")


def decode(spec: Any, tensors: Mapping[str, Tensor], place: str) -> Any:
    """What `encode` wrote; a `CodecError` that names the place if the description is not one of ours."""
    if isinstance(spec, list):
        return tuple(decode(item, tensors, f"{place}.{i}") for i, item in enumerate(spec))
    if not isinstance(spec, dict):
        return spec
    if "tensor" in spec:
        if spec["tensor"] not in tensors:
            raise CodecError(f"{place}: the tensor {spec['tensor']!r} is missing")
        return tensors[spec["tensor"]]
    if "map" in spec:
        return {k: decode(v, tensors, f"{place}.{k}") for k, v in spec["map"].items()}
    kind = spec.get("type")
    rest = {k: v for k, v in spec.items() if k != "type"}
    if kind == "net":
        return _build(lambda: Net.of(rest["name"], rest["settings"]), place)
    if kind not in CLASSES:
        raise CodecError(f"{place}: {kind!r} is nothing that this version of cbdl knows")
    fields = {k: decode(v, tensors, f"{place}.{k}") for k, v in rest.items()}
    _check_types(CLASSES[kind], fields, place)
    return _build(lambda: CLASSES[kind](**fields), place)


def _check_types(kind: type, fields: Mapping[str, Any], place: str) -> None:
    """A CodecError if a field is unknown, or not of the type that the class declares."""
    hints = get_type_hints(kind)
    known = {f.name for f in dataclasses.fields(kind) if f.init}
    for name, value in fields.items():
        if name not in known:
            raise CodecError(f"{place}: {kind.__name__} has no setting {name!r}")
        if not fits(value, hints[name]) and not (name == "net" and value is None):
            raise CodecError(f"{place}: {name} is {value!r}, not {hints[name]}")


def fits(value: Any, hint: Any) -> bool:
    """Whether `value` is of the declared type, as far as JSON can tell.

    >>> fits(3, float), fits("x", int), fits((1, 2), tuple[int, ...]), fits(None, int | None)
    (True, False, True, True)
    """
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inside)
    if origin is Literal:
        return value in inside
    if origin is tuple:
        return isinstance(value, tuple) and all(fits(v, inside[0]) for v in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(fits(v, inside[1]) for v in value.values())
    if hint in (int, float, bool):
        wanted = {int: int, float: int | float, bool: bool}[hint]
        return isinstance(value, wanted) and (hint is bool) == isinstance(value, bool)
    if hint is None or not isinstance(hint, type):  # a callable, a protocol's alias, a type variable
        return value is None if hint is None else callable(value) or not isinstance(value, str | int | float)
    if getattr(hint, "_is_protocol", False):
        return type(value) in _NAMES
    return isinstance(value, hint)


def _build(make: Any, place: str) -> Any:
    try:
        return make()
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise CodecError(f"{place}: {error}") from None
