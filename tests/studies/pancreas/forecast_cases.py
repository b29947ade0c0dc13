"""A small model of both kinds of variety, trained once for all tests, and networks whose answer is known."""

from functools import cache

import numpy as np
import torch

import cbdl
from cbdl.engines import Local
from cbdl.studies.pancreas import training_windows
from cbdl.studies.pancreas.networks import Group, Networks


@cache
def windows():
    return training_windows("adult#001", samples=300)


@cache
def model():
    likelihoods = [
        cbdl.likelihoods.Normal(cbdl.nets.mlp(20, 1, hidden=(w, w)), scale="learned") for w in (6, 8)
    ]
    own = cbdl.CBDL(
        priors=[cbdl.priors.Normal(0.0, 1.0), cbdl.priors.Normal(0.0, 2.0)],
        likelihoods=likelihoods,
        method=cbdl.MeanField(epochs=3, batch_size=64, lr=1e-2),
        engine=Local(),
        verbose=False,
    )
    return own.fit(windows().inputs, windows().targets)


def linear(sets, members, dose, noise=100.0, offset=0.0):
    """Members that say: the last reading, plus `dose` mg/dL for each of the ten doses, plus `offset` (members,)."""
    first = torch.zeros(sets, members, 2, 20)
    first[..., 0, 9] = first[..., 1, 9] = 1.0
    first[..., 0, 10:] = first[..., 1, 10:] = float(dose)
    first[..., 1, :] *= -1.0
    last = torch.tensor([[1.0, -1.0]]).expand(sets, members, 1, 2).contiguous()
    ends = torch.as_tensor(np.broadcast_to(offset, (members,)).copy()).float().view(1, -1, 1, 1)
    biases = (torch.zeros(sets, members, 2, 1), ends.expand(sets, -1, -1, -1).contiguous())
    variance = torch.full((sets, members, 1), float(noise))
    return Networks((Group((first, last), biases, variance, tuple(range(members))),))
