"""Real images: LeNet on MNIST, every member beside the same network trained without Bayes (make test-slow)."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import cbdl

DATA = Path(os.environ.get("CBDL_DATA", "")) / "mnist"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "CBDL_DATA" not in os.environ or not DATA.is_dir(),
        reason="CBDL_DATA does not name a folder with mnist/",
    ),
]


def idx(name, skip):
    return np.frombuffer(gzip.decompress((DATA / name).read_bytes()), np.uint8, offset=skip)


def mnist(part):
    images = idx(f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
    return images.astype(np.float32) / 255, idx(f"{part}-labels-idx1-ubyte.gz", 8).astype(np.int64)


def without_bayes(X, y, epochs, lr, batch_size):
    torch.manual_seed(0)
    net = cbdl.nets.lenet()()
    optimiser = torch.optim.Adam(net.parameters(), lr)
    steps = epochs * (len(X) // batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(epochs):
        order = torch.randperm(len(X))
        for rows in order[: len(X) // batch_size * batch_size].view(-1, batch_size):
            optimiser.zero_grad()
            F.cross_entropy(net(X[rows]), y[rows]).backward()
            optimiser.step()
            schedule.step()
    return net.eval()


def test_every_member_is_within_a_point_of_the_network_without_bayes():
    (X, y), (X_test, y_test) = mnist("train"), mnist("t10k")
    epochs = 5
    model = cbdl.CBDL(
        priors=[cbdl.priors.Normal(0, 1), cbdl.priors.Normal(0, 0.3), cbdl.priors.Laplace(0, 1)],
        likelihoods=[cbdl.likelihoods.Categorical(cbdl.nets.lenet())],
        method=cbdl.MeanField(epochs=epochs),
        verbose=False,
    ).fit(X, y)
    mean, spread = X.mean(), X.std()
    with torch.no_grad():
        net = without_bayes_fit(X, y, mean, spread, epochs)
        plain = net(torch.tensor((X_test - mean) / spread)).argmax(1).numpy()
    alone = (plain == y_test).mean()
    members = (np.asarray(model.predict(X_test).probs).argmax(-1) == y_test[:, None]).mean(0)
    print(f"without Bayes {alone:.4f}, members {members.round(4)}")
    assert (members > alone - 0.01).all()


def without_bayes_fit(X, y, mean, spread, epochs):
    with torch.enable_grad():
        return without_bayes(torch.tensor((X - mean) / spread), torch.tensor(y), epochs, 1e-3, 128)
