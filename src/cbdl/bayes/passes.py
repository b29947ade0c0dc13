"""Forward passes of small stacks of layers by compiled loops (numba): answers for many rows by many networks.

A block of rows goes through the whole network of one draw without leaving the nearest cache; in single precision and
on the CPU. A process loads loops when large questions have given it enough work for them; answers before and after that
are equal to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cbdl.bayes.flat import Layout
from cbdl.bayes.wide import Affine, Step
from cbdl.ground import compiling
from cbdl.ground.compiling import spread

LOOPS = "cbdl.bayes.compiled.answers"
FUNCTIONS: dict[type[nn.Module], int] = {nn.ReLU: 1, nn.SiLU: 2, nn.Tanh: 3}
"""What may follow a layer, by its number in the loops; 0: nothing."""
WIDE = 64
"""Units of a layer, and features of a row, up to which loops are faster than matrix products."""
LEAST = 8_000_000_000
"""Multiplications that a process must have had in large questions before loops are loaded for them. To load them takes
a second; in so many they save about as much."""
LARGE = 500_000_000
"""Multiplications of a large question: one below goes through matrix products whatever came before it."""
ALONE = 1_000_000
"""Multiplications below which threads are not worth their calls."""


def worth(steps: list[Step], layout: Layout, theta: Tensor, work: int) -> bool:
    """Whether loops are to answer a question of so many rows times networks, whose parameters are like theta."""
    if work * layout.size < LARGE or theta.dtype != torch.float32 or theta.device.type != "cpu":
        return False
    shape = layers(steps, layout)
    fits = shape is not None and int(shape[:, :2].max()) <= WIDE
    return fits and compiling.worth(LOOPS, work * layout.size, LEAST)


def layers(steps: list[Step], layout: Layout) -> NDArray[np.uint64] | None:
    """(layers, 6): inputs, outputs, where weights begin, whether and where biases do, the function that follows.

    None if the stack is not layers with at most one known function after each but the last.
    """
    rows: list[list[int]] = []
    for step in steps:
        if isinstance(step, Affine):
            weight = layout.entries[step.weight]
            bias = 0 if step.bias is None else layout.entries[step.bias].start
            rows.append([weight.shape[1], weight.shape[0], weight.start, step.bias is not None, bias, 0])
        elif type(step.module) not in FUNCTIONS or rows[-1][5]:
            return None
        else:
            rows[-1][5] = FUNCTIONS[type(step.module)]
    return None if rows[-1][5] else np.array(rows, dtype=np.uint64)


def output(steps: list[Step], layout: Layout, theta: Tensor, x: Tensor) -> Tensor:
    """What the networks theta (copies, P) put out for rows x: (copies, batch, features), as `wide.output`."""
    from cbdl.bayes.compiled import answers as loops

    shape = layers(steps, layout)
    assert shape is not None
    out = theta.new_empty(len(theta), int(shape[-1, 1]), len(x))
    own, rows, into = (_array(t) for t in (theta, x.flatten(1), out))
    busy = theta.numel() * len(x) >= ALONE
    spread(lambda first, last: loops.outputs(own[first:last], shape, rows, into[first:last]), len(own), busy)
    return out.mT


def averages(
    steps: list[Step], layout: Layout, theta: Tensor, x: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Class probabilities (members, classes, rows) of networks theta (members, draws, P) for rows x, averaged over
    draws with `weights` (draws,), and averaged too their entropies and their squared lengths (members, rows); in
    double precision."""
    from cbdl.bayes.compiled import answers as loops

    shape = layers(steps, layout)
    assert shape is not None
    own, rows, share = (_array(t) for t in (theta, x.flatten(1), weights.to(theta)))
    probs = np.zeros((len(own), int(shape[-1, 1]), len(rows)))
    noise, square = np.zeros((2, len(own), len(rows)))
    spread(
        lambda first, last: loops.averages(own, shape, share, rows, first, last, probs, noise, square),
        len(rows),
        theta.numel() * len(x) >= ALONE,
    )
    return torch.from_numpy(probs), torch.from_numpy(noise), torch.from_numpy(square)


def _array(x: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = x.contiguous().numpy()
    return array
