"""Images to learn from and to be asked about: own rows, rows of other data sets, corrupted ones.

Training rows are split into those that members learn from and validation rows, on which everything is chosen. Foreign
test rows are in the colour and size of one's own: 32 x 32 photographs become grey and lose a frame of two pixels,
digits and clothes become colour images with a black frame.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import torch

from cbdl import data
from cbdl.data import CIFAR10_C, MNIST_C, Images
from cbdl.data.formats import AbsentError
from cbdl.studies.images import foreign

SEVERITIES = (1, 2, 3, 4, 5)
SHIFTS = (1, 3, 5)
"""Severities at which validation rows are corrupted."""
CLEAN, VALIDATION = "clean", "validation"
STAND_IN = "digits"
SIDE = 16
"""Pixels to which the stand-in's 8 x 8 are enlarged, because LeNet needs 12."""


@dataclass(frozen=True)
class Source:
    """A data set: its name in commands, in `cbdl.data` and in tables; and the corruptions that it is tested with."""

    name: str
    files: str
    title: str
    corruptions: tuple[str, ...]
    grey: bool


SOURCES: dict[str, Source] = {
    own.name: own
    for own in (
        Source("mnist", "mnist", "MNIST", MNIST_C, grey=True),
        Source("fashion", "fashion-mnist", "Fashion-MNIST", MNIST_C, grey=True),
        Source("cifar", "cifar-10", "CIFAR-10", CIFAR10_C, grey=False),
        Source("svhn", "svhn", "SVHN", CIFAR10_C, grey=False),
    )
}
DIGITS = Source(STAND_IN, STAND_IN, "digits", ("shot_noise", "rotate"), grey=True)
"""What a moment's run and a machine without data have; its foreign rows are made from its own."""


@dataclass(frozen=True)
class Sizes:
    """How many rows are used; None: all."""

    train: int | None = None
    validation: int = 2000
    tests: int | None = None
    """Clean test rows."""
    foreign: int | None = None
    """Rows of each foreign data set."""
    corrupted: int | None = None
    """Test rows that are corrupted, the same ones for all corruptions."""
    shifted: int = 100
    """Validation rows that are corrupted: on them it is chosen by what rows are rejected."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The images of one source: `sets` by name are the rows that members answer about."""

    source: Source
    train: Images
    validation: Images
    tests: Images
    foreign: dict[str, Images]
    corrupted: Images
    """Clean ones, that are to be corrupted."""
    shifted: Images
    """Validation rows that are to be corrupted."""

    def sets(self, seed: int) -> dict[str, Callable[[], Images]]:
        """By name: validation rows, clean test rows, foreign test rows, and corrupted rows of both.

        As functions, because all of them together are many.
        """
        own = {VALIDATION: lambda: self.validation, CLEAN: lambda: self.tests}
        own |= {name: lambda images=images: images for name, images in self.foreign.items()}  # type: ignore[misc]
        own |= {
            corrupted(name, severity): lambda name=name, severity=severity: data.corrupt(  # type: ignore[misc]
                self.corrupted, name, severity, seed
            )
            for name in self.source.corruptions
            for severity in SEVERITIES
        }
        return own | self._shifted(1_000_003 + seed)

    def _shifted(self, seed: int) -> dict[str, Callable[[], Images]]:
        return {
            shifted(name, severity): lambda name=name, severity=severity: data.corrupt(  # type: ignore[misc]
                self.shifted, name, severity, seed
            )
            for name in self.source.corruptions
            for severity in SHIFTS
        }


def corrupted(name: str, severity: int) -> str:
    """The name of a set of corrupted rows."""
    return f"{name} {severity}"


def shifted(name: str, severity: int) -> str:
    """The name of a set of corrupted validation rows."""
    return f"{VALIDATION} {name} {severity}"


def some(images: Images, most: int | None, seed: int = 0) -> Images:
    """At most so many of the images, picked by the seed."""
    if most is None or most >= len(images):
        return images
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    return images[order[:most].sort().values]


def split(images: Images, validation: int, train: int | None, seed: int) -> tuple[Images, Images]:
    """Training rows and validation rows, none in both."""
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1_000_003 + seed))
    last = None if train is None else validation + train
    return images[order[validation:last]], images[order[:validation]]


def available() -> tuple[str, ...]:
    """The sources whose files are there, in the order of the tables."""
    return tuple(_tests())


def _tests() -> dict[str, Images]:
    """The test rows of all sources that have some."""
    there = {}
    for name, source in SOURCES.items():
        with contextlib.suppress(AbsentError):
            there[name] = data.load(source.files, "test")
    return there


def rows(source: Source, sizes: Sizes, seed: int) -> Rows:
    """The rows of a source; which ones are trained on depends on the seed, the test rows do not."""
    if source.name == STAND_IN:
        return _digits(source, sizes, seed)
    whole, tests = data.load(source.files, "train"), data.load(source.files, "test")
    train, validation = split(whole, sizes.validation, sizes.train, seed)
    others = {
        name: some(images, sizes.foreign).like(tests)
        for name, images in _tests().items()
        if name != source.name
    }
    return _rows(source, sizes, train, validation, tests, others)


def _rows(
    source: Source, sizes: Sizes, train: Images, validation: Images, tests: Images, others: dict[str, Images]
) -> Rows:
    """Those of them that are used."""
    asked, broken = some(tests, sizes.tests), some(tests, sizes.corrupted, 1)
    return Rows(source, train, validation, asked, others, broken, validation[: sizes.shifted])


def _digits(source: Source, sizes: Sizes, seed: int) -> Rows:
    whole, tests = (data.load("digits", part).sized(SIDE, "resize") for part in ("train", "test"))
    train, validation = split(whole, min(sizes.validation, len(whole) // 4), sizes.train, seed)
    others = {name: make(some(tests, sizes.foreign), 0) for name, make in foreign.MADE.items()}
    return _rows(source, sizes, train, validation, tests, others)
