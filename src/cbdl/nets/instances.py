"""Networks that users have already made: a module instance where a factory is meant.

A factory makes a new network, randomly initialised, for every member. An instance is taken as the template it is
(`Template`): a deep copy, initialised anew. Where it is pretrained and meant as it is, `as_is` says so.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Template:
    """A factory: a copy of `module` in which every submodule has drawn its parameters anew (`reset_parameters`).

    Parameters that are not trained (`requires_grad=False`, or not picked by `trainable`) stay as they are, and so do
    the buffers of modules that hold such alone: a frozen backbone keeps what it knows.
    """

    module: nn.Module

    def __post_init__(self) -> None:
        trained = {name for name, p in self.module.named_parameters() if p.requires_grad}
        probe = copy.deepcopy(self.module)
        with torch.no_grad():
            for name, p in probe.named_parameters():
                if name in trained and p.is_floating_point():
                    p.fill_(torch.nan)
        with torch.random.fork_rng(devices=[]):
            _reset(probe)
        left = [n for n, p in probe.named_parameters() if n in trained and bool(torch.isnan(p).any())]
        if left:
            owner = left[0].rpartition(".")[0]
            kind = type(self.module.get_submodule(owner)).__name__
            where = f"its submodule {owner!r}, a {kind}" if owner else f"it, a {kind}"
            raise ValueError(
                f"net is a module, of which every member gets a copy that is initialised anew, but {where}, has no "
                f"reset_parameters() that initialises {left[0]!r}. Give a function that makes the network, write that "
                "method, or use the module as it is: cbdl.nets.as_is(module)"
            )

    def __call__(self) -> nn.Module:
        return self.fresh(None)

    def fresh(self, trained: Collection[str] | None) -> nn.Module:
        """A new network; the parameters `trained` (None: all that require a gradient) are initialised anew."""
        network = copy.deepcopy(self.module)
        names = (
            {n for n, p in network.named_parameters() if p.requires_grad} if trained is None else set(trained)
        )
        _reset(network)
        given = dict(self.module.named_parameters())
        with torch.no_grad():
            for name, p in network.named_parameters():
                if name not in names:
                    p.copy_(given[name])
            for name, buffer in _buffers_of_the_frozen(self.module, names).items():
                network.get_buffer(name).copy_(buffer)
        return network


@dataclass(frozen=True)
class AsIs:
    """A factory: a copy of `module`, parameters and buffers included."""

    module: nn.Module

    def __call__(self) -> nn.Module:
        return copy.deepcopy(self.module)


def as_is(module: nn.Module) -> AsIs:
    """A factory for a pretrained network: every member starts at the parameters that `module` has now.

    What tells the members apart is then their priors, such as `cbdl.priors.Pretrained`. `trainable` picks what is
    learned; the rest stays as it is.

    >>> net = nn.Linear(2, 1)
    >>> bool((as_is(net)().weight == net.weight).all())
    True
    """
    if not isinstance(module, nn.Module):
        raise ValueError(
            f"as_is takes a module, not {type(module).__name__}; a factory is used as it is anyway"
        )
    return AsIs(module)


def as_factory(net: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """`net` itself if it makes networks; the template that a module instance is."""
    return Template(net) if isinstance(net, nn.Module) else net


def _reset(network: nn.Module) -> None:
    """Every submodule draws its parameters anew; inner ones first, so that outer ones have the last word."""
    for module in reversed(list(network.modules())):
        # attention and transformers of torch have it under a private name
        for name in ("reset_parameters", "_reset_parameters"):
            method = getattr(module, name, None)
            if callable(method):
                method()
                break


def _buffers_of_the_frozen(network: nn.Module, trained: Collection[str]) -> dict[str, Tensor]:
    """Buffers of modules that have parameters, but none that is trained."""
    frozen: dict[str, Tensor] = {}
    for prefix, module in network.named_modules():
        start = f"{prefix}." if prefix else ""
        own = [f"{start}{name}" for name, _ in module.named_parameters(recurse=False)]
        if own and not any(name in trained for name in own):
            frozen |= {f"{start}{name}": b for name, b in module.named_buffers(recurse=False)}
    return frozen
