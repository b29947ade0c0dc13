"""The engine against bayesian-torch 0.5.0 (pip install --no-deps bayesian-torch==0.5.0) and plain networks.

The 20-10-10-2 regression network of 28,400 rows at batch 128, and ResNet-20 on CIFAR-shaped images. Both sides of a
ratio run in the same process with the same number of threads, alternating, and the fastest of several runs counts.
`python -m benchmarks.bench_engine members [FILE.svg]` prints (and plots) time and memory against the number of priors.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks._table import Row
from cbdl.bayes import data, likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods.mean_field import MeanField, _Objective
from cbdl.bayes.train import Adam, Run

ROWS, BATCH = 28_400, 128


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 10), nn.ReLU(), nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 2))


class Block(nn.Module):
    """Two 3 x 3 convolutions and a shortcut (padded with zero channels where the size changes)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm_one, self.norm_two = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.pad, self.stride = (after - before) // 2, stride

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm_two(self.two(F.relu(self.norm_one(self.one(x)))))
        if self.stride > 1:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(h + x)


def resnet20() -> nn.Module:
    blocks = [Block(16, 16, 1) for _ in range(3)]
    blocks += [Block(16, 32, 2), Block(32, 32, 1), Block(32, 32, 1)]
    blocks += [Block(32, 64, 2), Block(64, 64, 1), Block(64, 64, 1)]
    stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def regression() -> data.Data:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 20, generator=source)
    y = x[:, :2].sin() + 0.1 * torch.randn(ROWS, 2, generator=source)
    return data.prepare(x, y, space="real")


def our_epoch(made: data.Data, members: int) -> Callable[[], None]:
    cohort = Cohort.of(
        priors.grid([0.0], torch.linspace(0.5, 3, members).tolist()), likelihoods.Normal(mlp, 0.1), made
    )
    return lambda: [MeanField(epochs=1, batch_size=BATCH).fit(cohort, made, Run()), None][1]


def bayesian_torch(network: nn.Module) -> nn.Module:
    """`network` with its layers replaced by reparameterised ones of bayesian-torch."""
    from bayesian_torch.models.dnn_to_bnn import dnn_to_bnn

    settings = {
        "prior_mu": 0.0,
        "prior_sigma": 1.0,
        "posterior_mu_init": 0.0,
        "posterior_rho_init": -3.0,
        "type": "Reparameterization",
        "moped_enable": False,
        "moped_delta": 0.5,
    }
    dnn_to_bnn(network, settings)
    return network


def peer_epoch(made: data.Data, members: int) -> Callable[[], None]:
    from bayesian_torch.models.dnn_to_bnn import get_kl_loss

    networks = [bayesian_torch(mlp()) for _ in range(members)]

    def run() -> None:
        for network in networks:
            optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
            for batch in made.epoch(0, 0, BATCH):
                loss = F.mse_loss(network(batch.x), batch.y) / 0.02 + get_kl_loss(network) / ROWS
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()

    return run


def images(rows: int = BATCH) -> data.Data:
    source = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 3, 32, 32, generator=source)
    return data.prepare(x, torch.arange(rows) % 10, space="classes")


def our_step(made: data.Data, members: int) -> Callable[[], None]:
    cohort = Cohort.of(priors.grid([0.0], [1.0] * members), likelihoods.Categorical(resnet20), made)
    objective = _Objective(MeanField(), cohort, made)
    optimiser = Adam(objective.variables)
    batch = next(made.epoch(0, 0, BATCH))

    def run() -> None:
        with torch.no_grad():
            _, gradient = objective.gradient(batch, 0, 1)
            optimiser.step(objective.variables, gradient, 1e-3, 0)

    return run


def plain_steps(made: data.Data, members: int, peer: bool = False) -> Callable[[], None]:
    """Four networks one after the other: deterministic with channels-last memory, or bayesian-torch's."""
    from bayesian_torch.models.dnn_to_bnn import get_kl_loss

    networks = [bayesian_torch(resnet20()) if peer else resnet20() for _ in range(members)]
    if not peer:
        networks = [n.to(memory_format=torch.channels_last) for n in networks]
    optimisers = [torch.optim.Adam(n.parameters(), lr=1e-3) for n in networks]
    x = made.x if peer else made.x.contiguous(memory_format=torch.channels_last)

    def run() -> None:
        for network, optimiser in zip(networks, optimisers, strict=True):
            loss = F.cross_entropy(network(x), made.y)
            if peer:
                loss = loss + get_kl_loss(network) / 50_000
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    return run


def alternate(*jobs: Callable[[], None], repeats: int = 3) -> list[float]:
    """The fastest time of each job, taken in turns: what else runs on the machine disturbs all alike."""
    best = [float("inf")] * len(jobs)
    for job in jobs:
        job()
    for _ in range(repeats):
        for i, job in enumerate(jobs):
            start = time.perf_counter()
            job()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def rows() -> list[Row]:
    made = regression()
    out = []
    for members, target in ((4, 10.0), (16, 30.0)):
        ours, theirs = alternate(our_epoch(made, members), peer_epoch(made, members))
        out.append(Row(f"mlp epoch, {members} members", ours, "bayesian-torch", theirs, target))
    photos = images()
    ours, plain, theirs = alternate(
        our_step(photos, 4), plain_steps(photos, 4), plain_steps(photos, 4, peer=True)
    )
    note = "channels-last; at most 1.15 times slower is promised"
    out.append(Row("ResNet-20 step, 4 members", ours, "deterministic", plain, 1 / 1.15, note))
    out.append(Row("ResNet-20 step, 4 members", ours, "bayesian-torch", theirs, 1.0))
    return out


def against_members() -> list[tuple[int, float, float]]:
    """(members, seconds of an epoch of the mlp, peak memory in MB), each in a process of its own."""
    made = regression()
    return [
        (members, *_apart(lambda members=members: our_epoch(made, members)))
        for members in (1, 2, 4, 8, 16, 32)
    ]


def _apart(prepare: Callable[[], Callable[[], None]]) -> tuple[float, float]:
    """Fastest seconds and peak memory of a job, in a forked process, so that peaks do not add up."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        (seconds,) = alternate(prepare())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        os.write(write, f"{seconds} {peak}".encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        seconds_text, peak_text = answer.read().split()
    os.waitpid(child, 0)
    return float(seconds_text), float(peak_text)


def plot(table: list[tuple[int, float, float]], path: str) -> None:
    """Time and memory against the number of priors, as one picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3), layout="constrained")
    for place, (column, label) in enumerate(((1, "seconds an epoch"), (2, "peak memory, MB"))):
        axes = figure.add_subplot(1, 2, place + 1)
        values = [row[column] for row in table]
        axes.plot([row[0] for row in table], values, "o-")
        axes.set(xlabel="members", ylabel=label, ylim=(0, 1.1 * max(values)))
    figure.savefig(path)


if __name__ == "__main__" and "members" in sys.argv:
    torch.set_num_threads(1)
    measured = against_members()
    for members, seconds, memory in measured:
        print(f"{members:3d} members  {seconds:7.3f} s  {memory:7.0f} MB")
    if sys.argv[-1].endswith((".png", ".svg")):
        plot(measured, sys.argv[-1])
