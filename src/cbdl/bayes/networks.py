"""Networks from the factory of a likelihood: made with a seed of their own, and asked what they put out."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cbdl.nets.instances import Template

from ._random import seeded
from .flat import Layout
from .likelihoods import Likelihood


def _make(
    likelihood: Likelihood,
    seed: int,
    device: torch.device,
    dtype: torch.dtype,
    trained: Sequence[str] | None = None,
) -> nn.Module:
    """A network from the factory, with torch's global stream seeded for the call only.

    Of a template the parameters `trained` are initialised anew.
    """
    net = likelihood.net
    with seeded(seed, device):
        network = net.fresh(trained) if isinstance(net, Template) else net()
    if not isinstance(network, nn.Module):
        raise ValueError(
            f"the network factory returned {type(network).__name__}; it must return an nn.Module"
        )
    return network.to(device=device, dtype=dtype)


def shared_network(
    likelihood: Likelihood,
    seed: int,
    device: torch.device,
    dtype: torch.dtype,
    trainable: str | Sequence[str] | None,
) -> nn.Module:
    """The network whose frozen parameters and buffers all members share."""
    net = likelihood.net
    trained = Layout.of(net.module, trainable).names if isinstance(net, Template) else None
    return _make(likelihood, seed, device, dtype, trained)


def start_of(
    likelihood: Likelihood, layout: Layout, seed: int, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """The parameters (P,) of a network from the factory, made with this seed."""
    network = _make(likelihood, seed, device, dtype, layout.names)
    parameters = {n: p.detach() for n, p in network.named_parameters()}
    for entry in layout.entries:
        if entry.name not in parameters or tuple(parameters[entry.name].shape) != entry.shape:
            raise ValueError(
                f"the network factory made a different network when called again (parameter {entry.name!r}); "
                "it must build the same architecture each time"
            )
    return layout.flatten(parameters)


def output_shape(network: nn.Module, x: Tensor) -> tuple[int, ...]:
    """The shape of what the network puts out for a row; a ValueError if it does not take such rows."""
    network.eval()
    with torch.no_grad():
        try:
            out = network(x[:2])
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            whole = (
                ""
                if x.is_floating_point()
                else "; X holds whole numbers, which stay whole: give X.astype(float)"
            )
            raise ValueError(
                f"the network does not accept inputs of shape {tuple(x[:2].shape)}: {error}{whole}"
            ) from error
    if not isinstance(out, Tensor):
        raise ValueError(f"the network returned {type(out).__name__}; it must return one tensor (batch, ...)")
    if out.shape[:1] != x[:2].shape[:1]:
        raise ValueError(
            f"the network returned shape {tuple(out.shape)} for {x[:2].shape[0]} rows; rows come first"
        )
    return tuple(out.shape[1:])
