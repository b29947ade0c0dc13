"""Convolutional networks for small images: LeNet-5 and residual networks of 6n + 2 layers."""

from __future__ import annotations

from torch import Tensor, nn

from cbdl.nets.dense import MOST_LAYERS


def build_lenet(outputs: int = 10, channels: int = 1, side: int = 28) -> nn.Module:
    # 5 x 5 with padding 2 keeps the side, as LeNet-5's 32 x 32 input did; the second one does not.
    left = ((side // 2) - 4) // 2
    if left < 1:
        raise ValueError(f"images of {side} x {side} are too small for LeNet; it needs 12 x 12 or more")
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * left * left, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, outputs),
    )


class _Block(nn.Module):
    """Two 3 x 3 convolutions and a shortcut; the shortcut is a 1 x 1 convolution where the shape changes."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outside)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outside)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first_norm(self.first(x)).relu()
        y = self.second_norm(self.second(y))
        out: Tensor = (y + self.shortcut(x)).relu()
        return out


def build_resnet(depth: int = 20, outputs: int = 10, channels: int = 3, width: int = 16) -> nn.Module:
    blocks, rest = divmod(depth - 2, 6)
    if rest or blocks < 1 or depth > MOST_LAYERS:
        raise ValueError(
            f"depth is {depth}; a residual network for small images has 8, 14, 20, ... layers, at most {MOST_LAYERS}"
        )
    layers: list[nn.Module] = [
        nn.Conv2d(channels, width, 3, 1, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
    ]
    inside = width
    for stage in range(3):
        outside = width << stage
        for i in range(blocks):
            layers.append(_Block(inside, outside, 2 if stage and not i else 1))
            inside = outside
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, outputs)]
    return nn.Sequential(*layers)
