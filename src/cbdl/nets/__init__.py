"""Small, well-known networks by name. A `Net` is a factory that a saved model can rebuild without any code in it.

>>> import cbdl.nets
>>> factory = cbdl.nets.mlp(4, 3, hidden=(16, 16))
>>> factory
Net(name='mlp', settings=(('activation', 'relu'), ('hidden', (16, 16)), ('inputs', 4), ('outputs', 3)))
>>> sum(p.numel() for p in factory().parameters())
403
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from cbdl.nets.conv import build_lenet, build_resnet
from cbdl.nets.dense import build_mlp
from cbdl.nets.instances import as_is
from cbdl.nets.recurrent import build_lstm

_BUILDERS: dict[str, Callable[..., nn.Module]] = {
    "mlp": build_mlp,
    "lenet": build_lenet,
    "resnet": build_resnet,
    "lstm": build_lstm,
}


@dataclass(frozen=True)
class Net:
    """A network by name and settings; calling it builds a new one.

    - `name`: which architecture
    - `settings`: its arguments, as sorted pairs
    """

    name: str
    settings: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, name: str, settings: Mapping[str, Any]) -> Net:
        """From a name and settings as JSON has them: lists become tuples; an unknown name is an error."""
        if name not in _BUILDERS:
            raise ValueError(f"there is no network named {name!r}; there are {', '.join(sorted(_BUILDERS))}")
        items = ((k, _tuples(v)) for k, v in sorted(settings.items()))
        return cls(name, tuple(items))

    def __call__(self) -> nn.Module:
        return _BUILDERS[self.name](**dict(self.settings))


def _tuples(value: Any) -> Any:
    """Lists, and lists in lists, as tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def mlp(
    inputs: int,
    outputs: int,
    hidden: Sequence[int] = (64, 64),
    activation: str = "relu",
    quantiles: Sequence[Sequence[float]] | None = None,
    ramps: int = 0,
) -> Net:
    """Fully connected: (rows, inputs) -> (rows, outputs).

    With `quantiles` of some columns (`cbdl.nets.scores`), in the units that the network is given, their Normal scores
    are further inputs; `cbdl.recipe.quantiles` finds them. With `ramps`, so many pieces of each of these
    columns are, too.

    - `inputs`: numbers that the network takes
    - `outputs`: numbers that the network puts out
    - `hidden`: widths of the hidden layers
    - `activation`: "relu", "tanh", "gelu" or "silu"

    >>> import torch
    >>> mlp(3, 2, hidden=(8,))()(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """
    settings = {"inputs": inputs, "outputs": outputs, "hidden": hidden, "activation": activation}
    more = {"quantiles": quantiles, "ramps": ramps}
    return Net.of("mlp", {**settings, **{name: value for name, value in more.items() if value}})


def lenet(outputs: int = 10, channels: int = 1, side: int = 28) -> Net:
    """LeNet-5 with ReLU and max pooling: (rows, channels, side, side) -> (rows, outputs).

    - `outputs`: numbers that the network puts out
    - `channels`: of an image: 1 for grey, 3 for colour
    - `side`: height and width of the images

    >>> import torch
    >>> lenet(outputs=10)()(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    return Net.of("lenet", {"outputs": outputs, "channels": channels, "side": side})


def resnet8(outputs: int = 10, channels: int = 3, width: int = 16) -> Net:
    """Residual network of 8 layers for small images: (rows, channels, side, side) -> (rows, outputs).

    - `outputs`: numbers that the network puts out
    - `channels`: of an image: 1 for grey, 3 for colour
    - `width`: channels of the first stage

    >>> import torch
    >>> resnet8()()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    return Net.of("resnet", {"depth": 8, "outputs": outputs, "channels": channels, "width": width})


def resnet20(outputs: int = 10, channels: int = 3, width: int = 16) -> Net:
    """Residual network of 20 layers for small images (He et al., 2016).

    - `outputs`: numbers that the network puts out
    - `channels`: of an image: 1 for grey, 3 for colour
    - `width`: channels of the first stage

    >>> sum(p.numel() for p in resnet20()().parameters())
    272282
    """
    return Net.of("resnet", {"depth": 20, "outputs": outputs, "channels": channels, "width": width})


def lstm(inputs: int, outputs: int, hidden: int = 64, layers: int = 1) -> Net:
    """LSTM read at its last step: (rows, time, inputs) -> (rows, outputs).

    - `inputs`: numbers that the network takes
    - `outputs`: numbers that the network puts out
    - `hidden`: units of a layer
    - `layers`: one upon the other

    >>> import torch
    >>> lstm(4, 2)()(torch.zeros(5, 12, 4)).shape               # five series of twelve steps
    torch.Size([5, 2])
    """
    return Net.of("lstm", {"inputs": inputs, "outputs": outputs, "hidden": hidden, "layers": layers})


__all__ = ["Net", "as_is", "lenet", "lstm", "mlp", "resnet8", "resnet20"]


def __dir__() -> list[str]:
    return sorted(__all__)
