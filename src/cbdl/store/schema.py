"""What a manifest must look like: every entry, its type and its bounds, before anything is built from it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any

FORMAT = 6
"""The number of this layout; it grows when an older cbdl could no longer read what is written."""
SINCE = {"plausible": 3, "chains": 3, "sharpen": 4, "sharpness": 4, "labels": 5, "tails": 6}
"""Entries that older formats which are still read do not have, and the format that brought them."""
OLDEST = 2
MOST = 10_000
"""Priors or likelihoods of the largest model that is read."""
SHARED = "shared.safetensors"
"""The file of what all likelihoods share: the units of the data, and tensors of the priors."""


class ModelError(ValueError):
    """A folder that is no model, or not a whole and unaltered one; the message says what is wrong with it."""


def file_of(s: int) -> str:
    """The file that holds the tensors of likelihood `s`."""
    return f"likelihood-{s}.safetensors"


Test = Callable[[Any], bool]


def whole(value: Any, least: int = 0, most: int = (1 << 63) - 1) -> bool:
    """Whether `value` is a whole number between two bounds."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def positive(value: Any) -> bool:
    """Whether `value` is a positive finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def share(value: Any) -> bool:
    """Whether `value` is a number from 0 to 1."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _sharpness(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(own, list) and len(own) == 3 and whole(own[0]) and whole(own[1]) and positive(own[2])
        for own in value
    )


def _tails(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(own, list)
        and len(own) == 4
        and whole(own[0])
        and whole(own[1])
        and share(own[2])
        and positive(own[3])
        for own in value
    )


def _words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _specs(value: Any) -> bool:
    return isinstance(value, list) and 0 < len(value) <= MOST and all(isinstance(v, dict) for v in value)


def _files(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(entry, dict) and whole(entry.get("bytes")) and isinstance(entry.get("sha256"), str)
        for entry in value.values()
    )


ENTRIES: dict[str, tuple[Test, str]] = {
    "cbdl": (lambda v: isinstance(v, str), "the version that wrote it"),
    "torch": (lambda v: isinstance(v, str), "the version of torch that wrote it"),
    "priors": (_specs, "a list of priors"),
    "likelihoods": (_specs, "a list of likelihoods"),
    "method": (lambda v: isinstance(v, dict), "an inference method"),
    "rows": (positive, "a positive number"),
    "plausible": (share, "a share from 0 to 1"),
    "chains": (lambda v: v in ("averaged", "extremes"), '"averaged" or "extremes"'),
    "sharpen": (lambda v: isinstance(v, bool), "true or false"),
    "sharpness": (_sharpness, "a list of [prior, likelihood, power]"),
    "tails": (_tails, "a list of [prior, likelihood, share, width]"),
    "labels": (lambda v: v is None or (_words(v) and v and len(set(v)) == len(v)), "null or different words"),
    "seed": (lambda v: whole(v, -(1 << 63)), "a whole number"),
    "standardize": (lambda v: isinstance(v, bool), "true or false"),
    "trainable": (lambda v: v is None or _words(v), "null or a list of patterns"),
    "dtype": (lambda v: v in ("float32", "float64"), '"float32" or "float64"'),
    "row": (
        lambda v: isinstance(v, list) and len(v) <= 8 and all(whole(n, 1) for n in v),
        "the shape of an input",
    ),
    "integers": (lambda v: isinstance(v, bool), "true or false"),
    "space": (lambda v: v in ("classes", "real", "counts"), '"classes", "real" or "counts"'),
    "parts": (lambda v: isinstance(v, list) and 0 < len(v) <= MOST, "a list, one entry per likelihood"),
    "extra": (lambda v: isinstance(v, dict), "an object"),
    "files": (_files, "the files with their sizes and sums"),
}


def check_manifest(manifest: Any) -> None:
    """A ModelError that names the first entry which is missing, or not what it must be."""
    if not isinstance(manifest, dict) or not whole(manifest.get("format"), 1):
        raise ModelError("it has no format number")
    if manifest["format"] > FORMAT:
        raise ModelError(
            f"it has format {manifest['format']}, this version of cbdl reads {FORMAT}; install a newer cbdl"
        )
    if manifest["format"] < OLDEST:
        raise ModelError(
            f"it has format {manifest['format']}, from a development version of cbdl; this one reads "
            f"{OLDEST} and later: train the model again"
        )
    entries = {n: own for n, own in ENTRIES.items() if SINCE.get(n, OLDEST) <= manifest["format"]}
    for name, (test, words) in entries.items():
        if name not in manifest:
            raise ModelError(f"the entry {name!r} is missing")
        if not test(manifest[name]):
            raise ModelError(f"{name!r} is {_short(manifest[name])}, not {words}")
    unknown = set(manifest) - set(entries) - {"format"}
    if unknown:
        raise ModelError(f"it has an entry {min(unknown)!r}, which this version of cbdl does not know")
    _check_parts(manifest)
    _check_files(manifest)


def _check_parts(manifest: Mapping[str, Any]) -> None:
    """Each likelihood at most once, its members once each and in order."""
    priors, likelihoods = len(manifest["priors"]), len(manifest["likelihoods"])
    before = -1
    for i, part in enumerate(manifest["parts"]):
        if not isinstance(part, dict) or set(part) != {"likelihood", "members", "priors"}:
            raise ModelError(f"parts[{i}] must have the entries likelihood, members and priors")
        if not whole(part["likelihood"], before + 1, likelihoods - 1):
            raise ModelError(
                f"parts[{i}]: likelihood is {_short(part['likelihood'])}; parts are in order, and the model has "
                f"{likelihoods} likelihoods"
            )
        before, members = part["likelihood"], part["members"]
        ordered = isinstance(members, list) and 0 < len(members) <= priors
        if (
            not ordered
            or not all(whole(k, 0, priors - 1) for k in members)
            or members != sorted(set(members))
        ):
            raise ModelError(
                f"parts[{i}]: members is {_short(members)}; give the numbers of its priors, each once and in order, "
                f"below {priors}"
            )
        if part["priors"] is not None and not (_specs(part["priors"]) and len(part["priors"]) == priors):
            raise ModelError(f"parts[{i}]: priors must be null or a list of {priors}")


def _check_files(manifest: Mapping[str, Any]) -> None:
    for name in manifest["files"]:
        if name != os.path.basename(name) or name in ("", ".", "..") or "\\" in name or "\0" in name:
            raise ModelError(f"it names the file {name!r}, which is not inside the folder")
    wanted = {SHARED, *(file_of(part["likelihood"]) for part in manifest["parts"])}
    differ = wanted ^ set(manifest["files"])
    if differ:
        raise ModelError(f"files must list {', '.join(sorted(wanted))} and no other; look at {min(differ)!r}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
