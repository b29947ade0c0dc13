"""Images with their labels, as bytes, and the few conversions between data sets of different shape and colour.

A model of grey 28 x 28 digits is asked about colour 32 x 32 photographs: what such a test means depends on how the one
is made from the other, so each conversion is one documented formula.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import torch
from torch import Tensor
from torch.nn import functional as F

LUMINANCE = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in grey (ITU-R BT.601)."""


@dataclass(frozen=True, repr=False, eq=False)
class Images:
    """x (n, channels, height, width) bytes, y (n,) labels from 0 to classes - 1; `note` says what is special here.

    - `classes`: how many classes there are
    - `name`: of the data set
    - `split`: "train" or "test"

    >>> from cbdl.data import load
    >>> digits = load("digits", "test")
    >>> digits.x.shape[1:], digits.classes
    (torch.Size([1, 8, 8]), 10)
    """

    x: Tensor
    y: Tensor
    classes: int
    name: str
    split: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if self.x.dtype != torch.uint8 or self.x.ndim != 4 or self.x.shape[1] not in (1, 3):
            raise ValueError(
                f"x is {self.x.dtype} of shape {tuple(self.x.shape)}; images are bytes (n, 1 or 3, height, width)"
            )
        if self.y.shape != self.x.shape[:1]:
            raise ValueError(
                f"y has shape {tuple(self.y.shape)} for {len(self.x)} images; give one label each"
            )

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.x.shape[1:]))
        title = ", ".join(filter(None, (self.name, self.split)))
        return f"Images({title}: {len(self)} of {shape}, {self.classes} classes)"

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Any) -> Self:
        """Some of the images: a slice, a mask or indices."""
        return replace(self, x=self.x[index], y=self.y[index])

    def floats(self) -> Tensor:
        """(n, channels, height, width): float32 between 0 and 1."""
        return self.x.float() / 255

    def grey(self) -> Self:
        """One channel: 0.299 red + 0.587 green + 0.114 blue, rounded; grey images as they are."""
        if self.x.shape[1] == 1:
            return self
        weights = torch.tensor(LUMINANCE, dtype=torch.float64).view(1, 3, 1, 1)
        return replace(self, x=(self.x * weights).sum(1, keepdim=True).round().to(torch.uint8))

    def colour(self) -> Self:
        """Three channels: grey ones three times; colour images as they are."""
        return self if self.x.shape[1] == 3 else replace(self, x=self.x.expand(-1, 3, -1, -1).contiguous())

    def sized(self, size: int, how: Literal["pad", "resize"] = "pad") -> Self:
        """Square images of `size` pixels.

        "pad": a black frame around smaller ones (28 to 32: two pixels on each side), the middle of larger ones; no
        pixel changes. "resize": bilinear, with antialiasing.

        - `how`: "pad" or "resize"
        """
        if int(size) != size or size < 1:
            raise ValueError(f"size is {size}; give a whole number of pixels")
        if how == "resize":
            x = F.interpolate(
                self.x.float(), size=(size, size), mode="bilinear", align_corners=False, antialias=True
            )
            return replace(self, x=x.round().clamp(0, 255).to(torch.uint8))
        if how != "pad":
            raise ValueError(f'how is {how!r}; give "pad" or "resize"')
        height, width = self.x.shape[-2:]
        down, right = size - height, size - width
        # negative padding cuts off
        frame = (right // 2, right - right // 2, down // 2, down - down // 2)
        return replace(self, x=F.pad(self.x, frame))

    def like(self, other: Images, how: Literal["pad", "resize"] = "pad") -> Self:
        """In the colour and size of `other`, for a model that was trained on it.

        - `how`: as in `sized`
        """
        colour = self.grey() if other.x.shape[1] == 1 else self.colour()
        return colour.sized(other.x.shape[-1], how)
