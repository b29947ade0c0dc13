"""Recurrent networks for sequences."""

from __future__ import annotations

from torch import Tensor, nn

from cbdl.nets.dense import MOST_LAYERS


class _LastStep(nn.Module):
    def __init__(self, inputs: int, outputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        out: Tensor = self.head(states[:, -1])
        return out


def build_lstm(inputs: int, outputs: int, hidden: int = 64, layers: int = 1) -> nn.Module:
    if not 1 <= layers <= MOST_LAYERS:
        raise ValueError(f"layers is {layers}; give a whole number from 1 to {MOST_LAYERS}")
    return _LastStep(inputs, outputs, hidden, layers)
