"""Corruptions of images of 32 x 32, against the package `imagecorruptions` one image at a time, where both have them.

The package is no dependency: install it by hand (`pip install imagecorruptions`); without it there are no rows. Some
of its corruptions fail with recent versions of what it needs, and are left out. One thread on both sides.
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import numpy as np
import torch

from benchmarks._table import Row, best_of
from cbdl.data import CIFAR10_C, corrupt

IMAGES, PEER_IMAGES = 1024, 8
PEER_NAMES = {"elastic": "elastic_transform", "jpeg": "jpeg_compression"}


def rows() -> list[Row]:
    if find_spec("imagecorruptions") is None:
        return []
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _rows()
    finally:
        torch.set_num_threads(before)


def _rows() -> list[Row]:
    from imagecorruptions import corrupt as peer

    source = torch.Generator().manual_seed(0)
    small = torch.rand(IMAGES, 3, 8, 8, generator=source)
    x = torch.nn.functional.interpolate(small, size=(32, 32), mode="bicubic").clamp(0, 1)
    x = (255 * x).round().to(torch.uint8)
    few = [np.ascontiguousarray(one) for one in x[:PEER_IMAGES].permute(0, 2, 3, 1).numpy()]
    answers, sums = [], [0.0, 0.0]
    for name in (*CIFAR10_C, "glass_blur"):
        own = PEER_NAMES.get(name, name)

        def theirs(own: str = own) -> object:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return [peer(image, corruption_name=own, severity=3) for image in few]

        try:
            theirs()
        except (TypeError, AttributeError, ValueError):
            continue
        times = best_of(lambda name=name: corrupt(x, name, 3)) / IMAGES, best_of(theirs) / PEER_IMAGES
        sums = [a + b for a, b in zip(sums, times, strict=True)]
        answers.append(Row(f"{name}, an image", times[0], "imagecorruptions", times[1], 0))
    # Noise and resizing are as fast in numpy and Pillow, image by image; a batch wins where there is more to do.
    answers.append(
        Row(f"all {len(answers)}, an image each", sums[0], "imagecorruptions", sums[1], 10, goal=20)
    )
    return answers
