"""A corruption by name, on images of any kind, in bounded memory and reproducible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from cbdl.data.corruptions import blurs, digital, geometry, noise, strokes, weather
from cbdl.data.images import Images

Corruption = Callable[[Tensor, int, torch.Generator], Tensor]
"""(images (n, c, h, w) between 0 and 1, severity from 0 to 4, random numbers) -> images, not yet cut to 0 and 1."""

PART = 256
"""Images at a time. Each part has its own random numbers, from the seed and where it begins."""

CORRUPTIONS: dict[str, Corruption] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "speckle_noise": noise.speckle_noise,
    "impulse_noise": noise.impulse_noise,
    "defocus_blur": blurs.defocus_blur,
    "gaussian_blur": blurs.gaussian_blur,
    "motion_blur": blurs.motion_blur,
    "zoom_blur": blurs.zoom_blur,
    "glass_blur": blurs.glass_blur,
    "snow": weather.snow,
    "fog": weather.fog,
    "frost": weather.frost,
    "brightness": weather.brightness,
    "contrast": digital.contrast,
    "elastic": digital.elastic,
    "pixelate": digital.pixelate,
    "jpeg": digital.jpeg,
    "spatter": weather.spatter,
    "saturate": digital.saturate,
    "canny_edges": strokes.canny_edges,
    "dotted_line": strokes.dotted_line,
    "rotate": geometry.rotate,
    "scale": geometry.scale,
    "shear": geometry.shear,
    "stripe": strokes.stripe,
    "translate": geometry.translate,
    "zigzag": strokes.zigzag,
}

MNIST_C = (
    "brightness",
    "canny_edges",
    "dotted_line",
    "fog",
    "glass_blur",
    "impulse_noise",
    "motion_blur",
    "rotate",
    "scale",
    "shear",
    "shot_noise",
    "spatter",
    "stripe",
    "translate",
    "zigzag",
)
CIFAR10_C = (
    "gaussian_noise",
    "shot_noise",
    "speckle_noise",
    "impulse_noise",
    "defocus_blur",
    "gaussian_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "fog",
    "frost",
    "brightness",
    "contrast",
    "elastic",
    "pixelate",
    "jpeg",
    "spatter",
    "saturate",
)

Kind = TypeVar("Kind", Images, Tensor)


def corrupt(images: Kind, name: str, severity: int = 3, seed: int = 0) -> Kind:
    """`images` with the corruption `name` of a severity from 1 to 5, in the form in which they were given.

    `Images`, or a tensor (n, 1 or 3, h, w): bytes, or floats between 0 and 1. The same seed gives the same images.

    - `severity`: from 1 to 5
    - `seed`: of the random numbers; the same seed gives the same answer

    >>> corrupt(torch.zeros(2, 1, 28, 28), "stripe", 5).shape
    torch.Size([2, 1, 28, 28])
    """
    if name not in CORRUPTIONS:
        raise ValueError(f"name is {name!r}; give one of {', '.join(CORRUPTIONS)}")
    if severity not in (1, 2, 3, 4, 5):
        raise ValueError(f"severity is {severity!r}; give 1, 2, 3, 4 or 5")
    if int(seed) != seed:
        raise ValueError(f"seed is {seed}; give a whole number")
    if isinstance(images, Images):
        note = "; ".join(filter(None, (images.note, f"{name} {severity}")))
        return replace(images, x=_corrupted(images.x, name, severity, int(seed)), note=note)
    if not isinstance(images, Tensor):
        raise ValueError(
            f"images are a {type(images).__name__}; give Images or a tensor (torch.as_tensor(images))"
        )
    return _corrupted(images, name, severity, int(seed))


def _corrupted(x: Tensor, name: str, severity: int, seed: int) -> Tensor:
    is_image = x.ndim == 4 and x.shape[1] in (1, 3) and 0 not in x.shape[2:]
    if not is_image or not (x.dtype == torch.uint8 or x.is_floating_point()):
        raise ValueError(
            f"images are {x.dtype} of shape {tuple(x.shape)}; give (n, 1 or 3, h, w), bytes or floats from 0 to 1"
        )
    if x.is_floating_point() and len(x) and not (x.min() >= 0 and x.max() <= 1):
        raise ValueError(f"images lie between {x.min():g} and {x.max():g}; floats must be between 0 and 1")
    parts = []
    for start in range(0, len(x), PART):
        part = x[start : start + PART].cpu()
        floats = part.float().div_(255) if part.dtype == torch.uint8 else part.float()
        source = torch.Generator().manual_seed((seed * 1_000_003 + start) % 2**63)
        spoiled = CORRUPTIONS[name](floats, int(severity) - 1, source).clamp(0, 1)
        parts.append(
            spoiled.mul_(255).round_().to(torch.uint8) if x.dtype == torch.uint8 else spoiled.to(x.dtype)
        )
    return torch.cat(parts).to(x.device) if parts else x
