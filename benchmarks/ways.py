"""Which way of evaluating a cohort is fastest, by kind of network: `python -m benchmarks.ways`.

One training step (forward and gradient) of 4 members. `cbdl.bayes.forward` chooses from these figures.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import cbdl
from benchmarks._table import best_of
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import prepare
from cbdl.bayes.forward import Way


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.attention(x, x, x, need_weights=False)[0].mean(1))
        return out


NETWORKS = {
    "mlp 20-10-10-10": (cbdl.nets.mlp(20, 10, (10, 10)), (20,)),
    "mlp 784-256-10": (cbdl.nets.mlp(784, 10, (256,)), (784,)),
    "lenet": (cbdl.nets.lenet(), (1, 28, 28)),
    "resnet8": (cbdl.nets.resnet8(), (3, 32, 32)),
    "lstm 8-32": (cbdl.nets.lstm(8, 10, 32), (12, 8)),
    "attention 32": (Attention, (12, 32)),
}


def step(make: object, shape: tuple[int, ...], way: Way | None) -> tuple[str, float] | None:
    """The way that was taken and the seconds of a step; None where it does not work."""
    x, y = torch.randn(128, *shape), torch.arange(128) % 10
    data = prepare(x, y, space="classes")
    likelihood = cbdl.likelihoods.Categorical(make)  # type: ignore[arg-type]
    try:
        cohort = Cohort.of([cbdl.priors.Normal(0, 1)] * 4, likelihood, data, way=way)
    except ValueError:
        return None
    batch = next(data.epoch(0, 0, 128))
    theta, buffers = cohort.initial.unsqueeze(1), {n: b.clone() for n, b in cohort.initial_buffers.items()}

    def run() -> None:
        cohort.gradient(theta, cohort.initial_noise, batch, buffers, 1.0)

    run()
    return cohort.forward.way, best_of(run, 5)


def main() -> None:
    print(f"{'network':18} {'wide':>9} {'vmap':>9} {'loop':>9}   chosen   (ms a step, 4 members, batch 128)")
    for name, (make, shape) in NETWORKS.items():
        times = []
        for way in ("wide", "vmap", "loop"):
            found = step(make, shape, way)
            times.append(f"{1e3 * found[1]:9.2f}" if found else f"{'-':>9}")
        chosen = step(make, shape, None)
        print(f"{name:18} {' '.join(times)}   {chosen[0] if chosen else '-'}")


if __name__ == "__main__":
    main()
