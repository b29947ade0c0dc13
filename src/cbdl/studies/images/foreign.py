"""Foreign images that are made from one's own: settings are chosen on them, and a run without other data has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from cbdl.data import Images
from cbdl.data.corruptions import fields

TILES = 4
"""Tiles along each side of an image that is scrambled."""


def scrambled(images: Images, seed: int) -> Images:
    """The tiles of every image in another order, its own: the same strokes and colours, no shape."""
    n, c, side, _ = images.x.shape
    edge = side // TILES
    whole = images.x[..., : edge * TILES, : edge * TILES]
    tiles = whole.reshape(n, c, TILES, edge, TILES, edge).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    source = torch.Generator().manual_seed(seed)
    order = torch.rand(n, TILES * TILES, generator=source).argsort(-1)
    moved = tiles[torch.arange(n)[:, None], order].reshape(n, TILES, TILES, c, edge, edge)
    x = images.x.clone()
    x[..., : edge * TILES, : edge * TILES] = moved.permute(0, 3, 1, 4, 2, 5).reshape(whole.shape)
    return replace(images, x=x, note="scrambled")


def inverted(images: Images, seed: int) -> Images:
    """White for black."""
    return replace(images, x=255 - images.x, note="inverted")


def textures(images: Images, seed: int) -> Images:
    """Clouds of the same size: structure on every scale, and nothing that was ever photographed."""
    source = torch.Generator().manual_seed(seed)
    parts = [
        fields.fractal(source, torch.zeros(len(images), 1, *images.x.shape[2:]))
        for _ in range(images.x.shape[1])
    ]
    x = torch.cat(parts, 1).mul(255).round().clamp(0, 255).to(torch.uint8)
    return replace(images, x=x, note="textures")


MADE: dict[str, Callable[[Images, int], Images]] = {
    "scrambled": scrambled,
    "inverted": inverted,
    "textures": textures,
}
