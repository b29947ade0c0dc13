"""What one member answers about all sets of rows: trained once and saved, asked once and kept."""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import cbdl
from cbdl.bayes.predictive import averages
from cbdl.credal.floor import weightings
from cbdl.ground import files
from cbdl.studies.images import points
from cbdl.studies.images.members import LineUp, Scale, Training, device, trained
from cbdl.studies.images.sources import CLEAN, DIGITS, SOURCES, VALIDATION, Rows, Sizes, rows
from cbdl.studies.shelf import Arrays, Key, file_name
from cbdl.studies.tables.contestant import code

DRAWS = 20
JUDGED = 500
"""Validation rows, the first, that members with draws are asked about: enough to find the best of four."""
_HERE = "studies/images"
LEARNING = (
    *(f"{_HERE}/{name}.py" for name in ("members", "sources", "varied")),
    *("bayes", "nets", "data/images.py", "data/formats.py"),
)
"""The code that decides what members learn."""
ASKING = (
    *LEARNING,
    *(f"{_HERE}/{name}.py" for name in ("answers", "foreign")),
    "data/corruptions",
)
"""The code that decides what they answer."""
OF_POINTS = (*(f"{_HERE}/{name}.py" for name in ("points", "layers")), "constructions/background.py")
"""The code that decides what members without draws answer."""


@dataclass(frozen=True)
class Asking:
    """One member of a line-up, trained on a source, and its answers."""

    source: str
    line_up: LineUp
    place: int
    seed: int
    how: Training
    sizes: Sizes
    folder: Path | None
    """Where trained members are kept."""

    @property
    def name(self) -> str:
        return f"{self.source} {self.line_up} {self.place} seed {self.seed}"

    @property
    def is_point(self) -> bool:
        """Whether the member is one network, without draws."""
        return self.line_up in ("ordinary", "robust")

    @property
    def key(self) -> Key:
        rooms = (*ASKING, *OF_POINTS) if self.is_point else ASKING
        return {**self._what(rooms), "sizes": asdict(self.sizes)}

    def _what(self, rooms: tuple[str, ...]) -> dict[str, Any]:
        rows_of = {"train": self.sizes.train, "validation": self.sizes.validation}
        if self.line_up == "robust":
            rooms = (*rooms, "constructions/robust.py")
        return {"name": self.name, "how": asdict(self.how), **rows_of, "code": code(*rooms)}

    def do(self) -> Arrays:
        """Probabilities and what else a line needs, by the name of the set."""
        source = SOURCES.get(self.source, DIGITS)
        own = rows(source, self.sizes, self.seed)
        model, seconds = self._member(own)
        scale = Scale.of(own.train)
        answer = points.answers if self.is_point else _draws
        return {**answer(model, own, scale, self.seed), "seconds": np.array(seconds)}

    def _member(self, own: Rows) -> tuple[cbdl.CBDL, float]:
        """The trained member, read if it is there, and the processor seconds of its training."""
        if self.folder is None:
            return self._trained(own)
        place = self.folder / file_name(self._what(LEARNING)).removesuffix(".npz")
        clock = place.with_suffix(".seconds")
        try:
            return cbdl.load(place, device=device()), float(clock.read_text())
        except (OSError, ValueError):
            shutil.rmtree(place, ignore_errors=True)
        model, seconds = self._trained(own)
        files.write(clock, f"{seconds:.3f}\n")
        model.save(place)
        return model, seconds

    def _trained(self, own: Rows) -> tuple[cbdl.CBDL, float]:
        begin = time.process_time()
        model = trained(self.line_up, self.place, self.how, own.train, self.seed)
        return model, time.process_time() - begin


def _draws(model: cbdl.CBDL, own: Rows, scale: Scale, seed: int) -> Arrays:
    """Probabilities averaged over draws, and over groups of them where the floor is told; the draws' mean entropy."""
    answers: Arrays = {}
    weights = weightings(DRAWS)
    told = {VALIDATION, CLEAN, *own.foreign}
    for name, make in own.sets(seed).items():
        if name.startswith(f"{VALIDATION} "):  # what is chosen on these is chosen for points
            continue
        some = weights if name in told else weights[:1]
        x = scale(make()[:JUDGED] if name == VALIDATION else make())
        probs, entropy, _ = averages(model.learned, x.to(model.device), some)
        answers[f"{name}/averages"] = probs[:, 0].numpy().astype(np.float32)
        answers[f"{name}/entropy"] = entropy[:, 0].numpy().astype(np.float32)
    return answers
