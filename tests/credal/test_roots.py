"""Roots of decreasing functions, many at once."""

import torch

from cbdl.credal.solvers.roots import last_nonnegative


def test_brackets_of_a_few_floats_are_closed():
    """Steps that round to nothing would be repeated for ever: the bracket must shrink down to its last floats."""
    calls = 0
    truth = torch.linspace(-4, 4, 1000, dtype=torch.float64)

    def function(rows, x):
        nonlocal calls
        calls += 1
        return torch.where(x <= truth[rows], 1e-13, -1.0)

    rows = torch.arange(1000)
    low, high = truth - 5, truth + 7
    root = last_nonnegative(function, low, high, function(rows, low), function(rows, high), rows)
    # Bisection from 12 to the last place of 0.004, the smallest of the numbers: 64 steps.
    assert calls <= 70
    eps = torch.finfo(torch.float64).eps
    assert ((root <= truth) & (truth - root <= 4 * eps * truth.abs())).all()


def test_smooth_functions_take_a_few_steps():
    calls = 0

    def function(rows, x):
        nonlocal calls
        calls += 1
        return torch.exp(-x) - 0.1 * (rows.double() + 1)

    rows = torch.arange(8)
    low, high = torch.zeros(8, dtype=torch.float64), torch.full((8,), 9.0, dtype=torch.float64)
    root = last_nonnegative(function, low, high, function(rows, low), function(rows, high), rows)
    assert torch.allclose(root, -(0.1 * (rows.double() + 1)).log(), rtol=1e-13, atol=1e-13)
    assert calls < 25
