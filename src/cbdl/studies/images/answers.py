"""What one member answers about all sets of rows: trained once and saved, asked once and kept."""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import cbdl
from cbdl import constructions
from cbdl.bayes.predictive import averages
from cbdl.credal.floor import weightings
from cbdl.ground import files
from cbdl.studies.images import layers
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
    *("bayes", "nets", "data/images.py", "data/formats.py", "constructions/robust.py"),
)
"""The code that decides what members learn."""
ASKING = (
    *LEARNING,
    *(f"{_HERE}/{name}.py" for name in ("answers", "layers", "foreign")),
    *("data/corruptions", "constructions/background.py"),
)
"""The code that decides what they answer."""


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
    def key(self) -> Key:
        return {**self._what(ASKING), "sizes": asdict(self.sizes)}

    def _what(self, rooms: tuple[str, ...]) -> dict[str, Any]:
        rows_of = {"train": self.sizes.train, "validation": self.sizes.validation}
        return {"name": self.name, "how": asdict(self.how), **rows_of, "code": code(*rooms)}

    def do(self) -> Arrays:
        """Probabilities and what else a line needs, by the name of the set."""
        source = SOURCES.get(self.source, DIGITS)
        own = rows(source, self.sizes, self.seed)
        model, seconds = self._member(own)
        scale = Scale.of(own.train)
        answer = _points if self.line_up in ("ordinary", "robust") else _draws
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
        probs, entropy = averages(model.learned, x.to(model.device), some)
        answers[f"{name}/averages"] = probs[:, 0].numpy().astype(np.float32)
        answers[f"{name}/entropy"] = entropy[:, 0].numpy().astype(np.float32)
    return answers


def _points(model: cbdl.CBDL, own: Rows, scale: Scale, seed: int) -> Arrays:
    """Log probabilities, and how known rows are to the network by what it sees of them."""
    network = layers.network_of(model)
    (_, train), (_, held_out) = (
        layers.seen_by(network, scale(images)) for images in (own.train, own.validation)
    )
    ground = constructions.background(train, own.train.y, held_out)
    answers: Arrays = {}
    for name, make in own.sets(seed).items():
        logits, features = layers.seen_by(network, scale(make()))
        answers[f"{name}/log_probs"] = logits.log_softmax(-1).numpy().astype(np.float32)
        answers[f"{name}/known"] = np.asarray(ground.known(features), dtype=np.float32)
    return answers
