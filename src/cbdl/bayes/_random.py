"""Random streams that are pure functions of their keys: nothing to save, nothing to share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

BLOCK = 1 << 16
"""How many numbers one call of the generator gives a member: large enough that its cost vanishes per step."""


def mix(*keys: int | str) -> int:
    """A 63-bit seed from integers and words; the same on every machine and in every process.

    >>> mix(0, "member", 1) == mix(0, "member", 1), mix(0, 1) == mix(1, 0)
    (True, False)
    """
    text = "\x1f".join(f"{type(key).__name__}:{key}" for key in keys)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(device: torch.device | str, *keys: int | str) -> torch.Generator:
    """A generator on `device` whose stream is named by `keys`."""
    stream = torch.Generator(device=device)
    stream.manual_seed(mix(*keys))
    return stream


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Inside the block torch's global stream, which networks and dropout draw from, is this seed's; afterwards it is as
    it was.

    On the CPU not by `torch.manual_seed`: that leaves a note, with a stack trace, for every kind of accelerator that
    was not used yet, which takes milliseconds in a deep stack, and a network with dropout is seeded in every step.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        if device.type == "cpu":
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)
        yield


class NormalStream:
    """Standard Normal noise (members, draws, P) for every step, each member from its own seed.

    Noise of `block` steps is drawn in one call. The block length depends on draws and P only, and block b of
    a member is a function of (its seed, b): how members are grouped, and where a run resumes, changes
    nothing. With `antithetic` the second half of the draws is the first half with its sign turned.
    """

    def __init__(
        self,
        seeds: tuple[int, ...],
        draws: int,
        size: int,
        *,
        antithetic: bool,
        device: torch.device,
        dtype: torch.dtype,
        stream: str = "noise",
    ) -> None:
        if antithetic and draws % 2:
            raise ValueError(f"draws is {draws}; antithetic draws come in pairs, give an even number")
        self.seeds, self.antithetic, self.stream = seeds, antithetic, stream
        self.fresh = draws // 2 if antithetic else draws
        self.size = size
        self.block = max(1, BLOCK // max(1, self.fresh * size))
        self.device, self.dtype = device, dtype
        self._index, self._noise = -1, torch.empty(0)

    def __call__(self, step: int) -> Tensor:
        """Noise of `step`: (members, draws, P)."""
        index, position = divmod(step, self.block)
        if index != self._index:
            shape = (self.block, len(self.seeds), self.fresh, self.size)
            self._noise = torch.empty(shape, device=self.device, dtype=self.dtype)
            for row, seed in enumerate(self.seeds):
                source = generator(self.device, seed, self.stream, index)
                # drawn into contiguous memory, so that the values do not depend on the number of members
                self._noise[:, row] = torch.randn(
                    (self.block, self.fresh, self.size),
                    generator=source,
                    device=self.device,
                    dtype=self.dtype,
                )
            self._index = index
        noise = self._noise[position]
        return torch.cat([noise, -noise], 1) if self.antithetic else noise
