"""Training rows that vary: colour images are mirrored and moved by a few pixels, anew in every epoch.

What a picture of a digit says changes when it is mirrored, so that those are only moved.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset


@dataclass(frozen=True, eq=False)
class Varied(Dataset[tuple[Tensor, Tensor]]):
    """Images x (n, channels, side, side) with their labels y (n,), of which every look sees another variant."""

    x: Tensor
    y: Tensor
    mirrored: bool = False
    """Half of the looks see left for right."""
    moved: int = 0
    """Pixels, at most, along each side; what comes in is a reflection of what was there."""

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        image, side = self.x[i], self.x.shape[-1]
        if self.mirrored and torch.rand(()) < 0.5:
            image = image.flip(-1)
        if self.moved:
            down, right = torch.randint(0, 2 * self.moved + 1, (2,)).tolist()
            wide = torch.nn.functional.pad(image, (self.moved,) * 4, mode="reflect")
            image = wide[:, down : down + side, right : right + side]
        return image, self.y[i]
