"""Half the mean distance of two draws: by nodes what it is by pairs, whose sum is closed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from cbdl.evaluate._differences import by_pairs, half_difference

ROWS, MANY = 6, 300


def mixtures(kind: str) -> tuple[torch.Tensor, ...]:
    source = np.random.default_rng(0)
    loc, scale = source.normal(size=(ROWS, MANY)), np.exp(0.5 * source.normal(size=(ROWS, MANY)))
    weight = source.dirichlet(np.ones(MANY), size=ROWS)
    if kind == "tails":
        scale[:, -1], weight[:, -1] = 40.0, 0.005
    elif kind == "modes":
        loc = 0.1 * loc + 20 * source.integers(0, 3, (ROWS, MANY))
    elif kind == "narrow":
        scale *= 1e-3
    elif kind == "far":
        loc += 1e6
    elif kind == "idle":  # without weight, and so narrow that nodes for it would never end
        scale[:, 0], weight[:, 0] = 1e-12, 0.0
    weight /= weight.sum(1, keepdims=True)
    return torch.tensor(loc), torch.tensor(scale), torch.tensor(weight)


@pytest.mark.parametrize("kind", ["plain", "tails", "modes", "narrow", "far", "idle"])
def test_nodes_say_what_pairs_say(kind):
    own = mixtures(kind)
    torch.testing.assert_close(half_difference(*own), by_pairs(*own), rtol=1e-9, atol=0)


def test_it_is_the_integral_of_its_definition():
    loc, scale, weight = mixtures("plain")
    for i, got in enumerate(half_difference(loc, scale, weight)[:2]):
        m, s, w = (x[i].numpy() for x in (loc, scale, weight))

        def height(t, m=m, s=s, w=w):
            below = (w * stats.norm.cdf(t, m, s)).sum()
            return below * (1 - below)

        assert float(got) == pytest.approx(
            integrate.quad(height, -60, 60, limit=400, points=[0])[0], rel=1e-7
        )
