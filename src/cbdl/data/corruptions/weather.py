"""Weather and light: snow, fog, frost, spatter, brightness. Severity 0 to 4; x (n, c, h, w) between 0 and 1."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from cbdl.data.corruptions.fields import blur, fractal, normal, smeared, stretched, uniform, unit

WATER = (0.69, 0.93, 0.93)
ICE = (0.86, 0.94, 1.0)


def _tinted(x: Tensor, colour: tuple[float, float, float]) -> Tensor:
    """(1, c, 1, 1): a colour, or how bright it is for grey images."""
    return x.new_tensor(colour if x.shape[1] == 3 else [sum(colour) / 3]).view(1, -1, 1, 1)


def snow(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Flakes that fall aslant, over an image that is paler."""
    share, fall, pale = (
        (0.02, 2.0, 0.10),
        (0.035, 2.5, 0.17),
        (0.055, 3.0, 0.25),
        (0.08, 3.5, 0.33),
        (0.11, 4.0, 0.42),
    )[severity]
    n, _, h, w = x.shape
    size = max(1, round(0.8 * unit(x)))
    flakes = uniform(source, n, 1, -(-h // size), -(-w // size))
    flakes = F.interpolate((flakes < share).to(x), scale_factor=float(size))[..., :h, :w]
    flakes = (flakes * uniform(source, n, 1, h, w, low=0.7)).to(x)
    angle = uniform(source, n, low=math.pi / 3, high=2 * math.pi / 3)
    falling = 1.5 * smeared(flakes, torch.full((n,), fall * unit(x)), angle)
    light = x.mean(1, keepdim=True)
    paler = (1 - pale) * x + pale * torch.maximum(x, 0.5 * light + 0.5)
    return paler + falling


def fog(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Clouds that take contrast away."""
    thick = (0.4, 0.7, 1.0, 1.5, 2.2)[severity]
    top = x.amax((1, 2, 3), keepdim=True).clamp_min(1e-6)
    return (x + thick * (0.4 + 0.6 * fractal(source, x, 0.5))) * top / (top + thick)


def frost(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Crystals on the lens: the ridges of clouds, white and a little blue."""
    keep, ice = ((0.95, 0.30), (0.85, 0.45), (0.75, 0.60), (0.68, 0.75), (0.60, 0.90))[severity]
    ridges = 1 - (2 * fractal(source, x, 0.8) - 1).abs()
    veins = 1 - (2 * fractal(source, x, 0.9) - 1).abs()
    crystals = (0.6 * ridges**3 + 0.4 * veins**4).clamp(0, 1)
    return keep * x + ice * crystals * _tinted(x, ICE)


def spatter(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """Drops of water, bright, with a darker rim."""
    share, thick = ((0.05, 0.6), (0.09, 0.65), (0.14, 0.7), (0.20, 0.75), (0.27, 0.8))[severity]
    n, _, h, w = x.shape
    liquid = stretched(blur(normal(source, n, 1, h, w).to(x), 1.2 * unit(x)))
    level = liquid.flatten(1).kthvalue(max(1, round((1 - share) * h * w)), dim=1).values.view(n, 1, 1, 1)
    drops = torch.sigmoid((liquid - level) * 60)
    rim = 4 * drops * (1 - drops)
    return x * (1 - thick * drops) * (1 - 0.4 * rim) + thick * drops * _tinted(x, WATER)


def brightness(x: Tensor, severity: int, source: torch.Generator) -> Tensor:
    """More light: the value (the largest channel) grows by the same number everywhere, the hue stays."""
    more = (0.1, 0.2, 0.3, 0.4, 0.5)[severity]
    value = x.amax(1, keepdim=True)
    # a black pixel has no hue: it becomes grey
    return torch.where(value > 1e-6, x * ((value + more).clamp_max(1) / value.clamp_min(1e-6)), more)
