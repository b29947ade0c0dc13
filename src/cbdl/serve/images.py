"""Images: models whose inputs are pictures, and pictures as requests bring them (PNG or JPEG).

A picture is an array (channels, height, width) with 0 for black and `white` for white. A model of a table of pixels
(`cbdl.serve.described.picture`) takes its columns from it; a model that was trained on pictures takes it whole.
"""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from cbdl.credal import CategoricalCredalSet
from cbdl.model import CBDL, load
from cbdl.serve.described import picture
from cbdl.serve.problems import Problem
from cbdl.tables.answers import Trained, described
from cbdl.tables.encoding import Encoded
from cbdl.tables.errors import TableError
from cbdl.tables.files import Floats
from cbdl.tables.target import Target

FORMATS = ("PNG", "JPEG")
MODES = {1: "L", 3: "RGB"}
EIGHT_BITS = ("1", "L", "LA", "P", "RGB", "RGBA")
"""What a file may hold; others have more bits than a byte a channel, and would be cut off."""


@dataclass(frozen=True)
class Picture:
    """The pictures that a model takes: their size in pixels, and the value of a white one."""

    channels: int
    height: int
    width: int
    white: float = 1.0

    def __str__(self) -> str:
        return f"{self.width} x {self.height} pixels, {'grey' if self.channels == 1 else 'in colour'}"

    def decoded(self, content: bytes, name: str) -> Floats:
        """(channels, height, width) of a file; a `Problem` that calls it `name` where it is no such picture."""
        try:
            image = Image.open(io.BytesIO(content), formats=FORMATS)
        except Exception:  # whatever a decoder stumbles over, the file is to blame
            raise Problem(422, f"{name} is not a PNG or JPEG image; the model takes {self}") from None
        if image.size != (self.width, self.height):  # before it is unpacked, which may take gigabytes
            size = " x ".join(map(str, image.size))
            raise Problem(
                422, f"{name} has {size} pixels; the model takes {self}: cut it out or resize it first"
            )
        if image.mode not in EIGHT_BITS:
            raise Problem(422, f"{name} has the mode {image.mode}; save it with 8 bits a channel")
        try:
            values = np.asarray(image.convert(MODES[self.channels]), dtype=np.float64)
        except Exception:
            raise Problem(422, f"{name} is broken: it cannot be read to its end") from None
        return values.reshape(self.height, self.width, self.channels).transpose(2, 0, 1) / 255 * self.white

    def example(self) -> str:
        """A black picture as JSON holds it."""
        file = io.BytesIO()
        Image.new(MODES[self.channels], (self.width, self.height)).save(file, "PNG")
        return base64.b64encode(file.getvalue()).decode()


def picture_of(trained: Trained) -> Picture | None:
    """The pictures that a model takes; None if it takes none."""
    if trained.columns:
        own = picture(trained.columns) if trained.classifies else None
        return None if own is None else Picture(1, own["height"], own["width"], own["most"])
    channels, height, width = trained.model.learned.row
    return Picture(channels, height, width, trained.white)


def unpacked(images: Sequence[str]) -> list[bytes]:
    """Files from base64, as JSON brings them; the address of data ("data:image/png;base64,...") may be before it."""
    files = []
    for i, text in enumerate(images):
        try:
            files.append(base64.b64decode(text.partition(",")[2] or text, validate=True))
        except (binascii.Error, ValueError):
            raise Problem(
                422, f"images[{i}] is not base64; send the bytes of a PNG or JPEG file so"
            ) from None
    return files


def encoded_images(trained: Trained, files: Sequence[bytes]) -> Encoded:
    """Files as inputs of the model; a `Problem` where one is nothing that it takes."""
    wanted = picture_of(trained)
    if wanted is None:
        raise Problem(422, "images: this model was trained on a table; send rows")
    values = np.stack([wanted.decoded(file, f"images[{i}]") for i, file in enumerate(files)])
    if trained.columns:
        own = picture(trained.columns)
        assert own is not None
        at = np.array([own["pixels"][c.name] for c in trained.columns])
        values = values[:, 0, at[:, 0], at[:, 1]]
    known = np.zeros((len(files), len(trained.columns)), dtype=bool)
    return Encoded(values, known, known)


# --- models of pictures ---------------------------------------------------------------------------------------


def of_images(model: CBDL, white: float = 1.0) -> Trained:
    """A model that was trained on pictures (rows, channels, height, width), as the service asks it.

    - `model`: a trained `cbdl.CBDL`, of classes or of one number
    - `white`: the value of a white pixel in the training data
    """
    row = model.learned.row
    if len(row) != 3 or row[0] not in MODES:
        raise TableError(
            f"the model was trained on rows of shape {row}; the service takes models of tables (cbdl fit), or of "
            "pictures (1 or 3 channels, height, width)"
        )
    first = model.predict(np.zeros((1, *row), dtype=np.float32), 2, floor=False)
    if isinstance(first, CategoricalCredalSet):
        labels = first.labels or tuple(map(str, range(first.num_classes)))
        return Trained(model, Target("class", "classification", labels), (), white=white)
    return Trained(model, Target("outcome", "regression"), (), white=white)


def load_served(folder: str | Path) -> Trained:
    """The model in a folder: one of a table, or one of pictures whose networks are from `cbdl.nets`."""
    extra = described(folder)
    if "columns" in extra:
        return Trained.load(folder)
    return of_images(load(folder), float(extra.get("white", 1.0)))
