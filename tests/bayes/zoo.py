"""Networks of every kind that users bring, with inputs for them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Factory = Callable[[], nn.Module]


class Last(nn.Module):
    """A recurrent network's last state, through a head."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], layers: int = 1, both: bool = False) -> None:
        super().__init__()
        self.recurrent = kind(3, 4, num_layers=layers, batch_first=True, bidirectional=both)
        self.head = nn.Linear(8 if both else 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.recurrent(x)[0][:, -1])
        return out


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(4, 2, batch_first=True)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x + self.attend(x, x, x, need_weights=False)[0])
        out: Tensor = self.head(h.mean(1))
        return out


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10, 4, padding_idx=0)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.words(x).mean(1))
        return out


class Tied(nn.Module):
    """Encoder and decoder share one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(3, 3)
        self.decode = nn.Linear(3, 3)
        self.decode.weight = self.encode.weight

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.decode(torch.tanh(self.encode(x)))
        return out


class Branching(nn.Module):
    """Its path depends on values: vmap refuses it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.a(x) if self.a.bias.sum() > 0 else self.b(x)
        return out


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2)
        self.head = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(x + self.two(self.one(x)))
        out: Tensor = self.head(h.mean((2, 3)))
        return out


def _floats(*shape: int) -> Tensor:
    return torch.randn(6, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def _words() -> Tensor:
    return torch.randint(0, 10, (6, 5), generator=torch.Generator().manual_seed(1))


def conv(n: int, transposed: bool = False) -> Factory:
    def make() -> nn.Module:
        kinds = (
            (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
            if transposed
            else (nn.Conv1d, nn.Conv2d, nn.Conv3d)
        )
        norm = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[n - 1]
        size = (6 if transposed else 2) ** n
        return nn.Sequential(
            kinds[n - 1](2, 4, 3, groups=2), norm(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * size, 2)
        )

    return make


ZOO: dict[str, tuple[Factory, Tensor]] = {
    "mlp": (
        lambda: nn.Sequential(
            nn.Linear(3, 8), nn.GELU(), nn.Sequential(nn.Linear(8, 4, bias=False), nn.Tanh()), nn.Linear(4, 2)
        ),
        _floats(3),
    ),
    "mlp on images": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)),
        _floats(2, 2, 2),
    ),
    "conv1d": (conv(1), _floats(2, 4)),
    "conv2d": (conv(2), _floats(2, 4, 4)),
    "conv3d": (conv(3), _floats(2, 4, 4, 4)),
    "transposed 1d": (conv(1, True), _floats(2, 4)),
    "transposed 2d": (conv(2, True), _floats(2, 4, 4)),
    "transposed 3d": (conv(3, True), _floats(2, 4, 4, 4)),
    "lstm": (lambda: Last(nn.LSTM), _floats(4, 3)),
    "deep lstm": (lambda: Last(nn.LSTM, 2, True), _floats(4, 3)),
    "gru": (lambda: Last(nn.GRU), _floats(4, 3)),
    "attention": (Attention, _floats(5, 4)),
    "transformer": (
        lambda: nn.Sequential(
            nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), nn.Flatten(), nn.Linear(20, 2)
        ),
        _floats(5, 4),
    ),
    "embedding": (Words, _words()),
    "layer norm": (
        lambda: nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.SiLU(), nn.Linear(8, 2)),
        _floats(3),
    ),
    "group norm": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(16, 2)),
        _floats(2, 4, 4),
    ),
    "batch norm": (
        lambda: nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2)),
        _floats(3),
    ),
    "cumulative batch norm": (
        lambda: nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8, momentum=None), nn.Tanh(), nn.Linear(8, 2)),
        _floats(3),
    ),
    "residual": (Residual, _floats(2, 4, 4)),
    "tied": (Tied, _floats(3)),
    "branching": (Branching, _floats(3)),
    "dropout": (
        lambda: nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 2)),
        _floats(3),
    ),
}
