"""Flat parameters: a network as a vector of P numbers, a cohort as a tensor (members, P).

A `Layout` says where each trainable parameter of an `nn.Module` sits in the vector. Parameters that are tied
appear once. Parameters that are frozen (`requires_grad=False`, or not picked by `trainable`) and buffers are
not part of the vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Entry:
    """One parameter of the network: coordinates `start` to `stop` of the flat vector."""

    name: str
    shape: tuple[int, ...]
    start: int
    fan_in: int
    """How many inputs are summed with these weights; 1 for biases, norms and embeddings."""

    @property
    def size(self) -> int:
        return int(torch.Size(self.shape).numel())

    @property
    def stop(self) -> int:
        return self.start + self.size


@dataclass(frozen=True)
class Layout:
    """Where the parameters of a network sit in a vector of P numbers."""

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, network: nn.Module, trainable: str | Sequence[str] | None = None) -> Layout:
        """The layout of the parameters that require a gradient and match a pattern of `trainable`.

        >>> net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
        >>> [(e.name, e.shape, e.start) for e in Layout.of(net, trainable="2.*").entries]
        [('2.weight', (1, 3), 0), ('2.bias', (1,), 3)]
        """
        patterns = [trainable] if isinstance(trainable, str) else trainable
        names = [name for name, p in network.named_parameters() if p.requires_grad]
        if patterns is not None:
            for pattern in patterns:
                if not any(matches(name, pattern) for name in names):
                    raise ValueError(
                        f"trainable: no parameter matches {pattern!r}; the network has {shorten(names)}"
                    )
            names = [name for name in names if any(matches(name, pattern) for pattern in patterns)]
        if not names:
            raise ValueError("the network has no trainable parameter; nothing is left to be Bayesian about")
        parameters, entries, start = dict(network.named_parameters()), [], 0
        for name in names:
            p = parameters[name]
            entries.append(Entry(name, tuple(p.shape), start, fan_in(network, name, p)))
            start += p.numel()
        return cls(tuple(entries))

    @cached_property
    def size(self) -> int:
        """P, the length of the vector."""
        return self.entries[-1].stop

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(e.name for e in self.entries)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(e.size for e in self.entries)

    def view(self, theta: Tensor) -> dict[str, Tensor]:
        """theta (..., P) as named parameters (..., *shape), without a copy."""
        # one split has one backward node (a concatenation); a slice per parameter would fill P zeros for each
        parts = torch.split_with_sizes(theta, self.sizes, -1)
        batch = theta.shape[:-1]
        return {e.name: part.reshape(batch + e.shape) for e, part in zip(self.entries, parts, strict=True)}

    def flatten(self, tensors: dict[str, Tensor]) -> Tensor:
        """The inverse of `view` for one network: named parameters to a vector (P,)."""
        return torch.cat([tensors[e.name].detach().reshape(-1) for e in self.entries])

    def constants(self, network: nn.Module) -> dict[str, Tensor]:
        """The parameters of `network` that stay as they are."""
        return {n: p.detach().clone() for n, p in network.named_parameters() if n not in self.names}

    def fan_in(self, device: torch.device, dtype: torch.dtype) -> Tensor:
        """The fan-in of every coordinate (P,)."""
        return torch.cat(
            [torch.full((e.size,), float(e.fan_in), device=device, dtype=dtype) for e in self.entries]
        )


def matches(name: str, pattern: str) -> bool:
    """Whether `pattern` (shell wildcards) matches the parameter; "*.bias" matches a top-level "bias" too."""
    return fnmatchcase(name, pattern) or fnmatchcase("." + name, pattern)


def shorten(names: Iterable[str], most: int = 8) -> str:
    """A list of names for a message: the first few, and how many more."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def fan_in(network: nn.Module, name: str, parameter: Tensor) -> int:
    """The number of products that are summed with one weight of `parameter`."""
    owner = network.get_submodule(name.rpartition(".")[0])
    if parameter.ndim < 2 or isinstance(owner, nn.Embedding | nn.EmbeddingBag):
        return 1
    if isinstance(owner, TRANSPOSED):
        return max(1, parameter.numel() // parameter.shape[1] // owner.groups)
    return max(1, parameter.numel() // parameter.shape[0])
