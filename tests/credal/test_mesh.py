"""The mesh resolves every component, whatever its scale and place, and its error estimate is honest."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from cbdl.credal.line.mesh import cdf, density, log_density, on_meshes, quadrature
from trials import trials

f64 = torch.float64


def tensors(*rows):
    return tuple(torch.tensor([row], dtype=f64) for row in rows)


def entropy(loc, scale, weights):
    loc, scale, weights = tensors(loc, scale, weights)
    mesh = quadrature(loc, scale)
    p = density(mesh, loc[:, None], scale[:, None], weights[:, None])
    value, error = mesh.integrate(torch.special.entr(p))
    return value.item(), error.item()


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1.0, 1e8])
@pytest.mark.parametrize("loc", [0.0, -3.0, 1e6])
def test_the_entropy_of_a_normal_is_exact_at_every_scale_and_place(loc, scale):
    value, error = entropy([loc], [scale], [1.0])
    exact = math.log(scale) + 0.5 * math.log(2 * math.pi * math.e)
    assert abs(value - exact) < 1e-13 * (1 + abs(exact))
    assert error < 1e-10


def test_a_scale_below_the_spacing_of_floats_is_resolved():
    value, _ = entropy([1e6, -1e6], [1e-12, 1e-9], [0.5, 0.5])
    exact = sum(0.5 * (math.log(s) + 0.5 * math.log(2 * math.pi * math.e)) for s in (1e-12, 1e-9))
    assert value == pytest.approx(exact + math.log(2), abs=1e-12)


@trials(30)
@given(
    st.lists(st.floats(-20, 20), min_size=2, max_size=5),
    st.lists(st.floats(-4, 2), min_size=5, max_size=5),
    st.integers(0, 1000),
)
def test_densities_integrate_to_one_and_the_error_estimate_bounds_the_error(loc, logs, seed):
    scale = [10.0**x for x in logs[: len(loc)]]
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(loc))).tolist()
    m, s, w = tensors(loc, scale, weights)
    mesh = quadrature(m, s)
    p = density(mesh, m[:, None], s[:, None], w[:, None])
    total, error = mesh.integrate(p)
    assert abs(total.item() - 1) <= max(error.item(), 1e-14)
    H, error = mesh.integrate(torch.special.entr(p))
    fine = quadrature(m, s, refine=8)
    exact, _ = fine.integrate(torch.special.entr(density(fine, m[:, None], s[:, None], w[:, None])))
    assert abs(H - exact).item() <= error.item() + 1e-13 * (1 + abs(exact.item()))


def test_an_integral_agrees_with_quad():
    loc, scale, weights = [0.0, 3.0, 10.0], [1.0, 0.2, 4.0], [0.2, 0.5, 0.3]

    def p(y):
        return sum(w * stats.norm.pdf(y, m, s) for m, s, w in zip(loc, scale, weights, strict=True))

    exact, _ = integrate.quad(lambda y: -p(y) * math.log(p(y)), -60, 80, points=[0, 2, 3, 4, 10], limit=500)
    assert entropy(loc, scale, weights)[0] == pytest.approx(exact, abs=1e-9)


def test_gaps_between_far_modes_cost_nothing():
    near = quadrature(*tensors([0.0, 30.0], [1.0, 1.0]))
    far = quadrature(*tensors([0.0, 1e12], [1.0, 1.0]))
    assert near.y.shape == far.y.shape


def test_a_component_of_weight_zero_does_not_matter():
    loc, scale = tensors([0.0, 1e9], [1.0, 1e-3])
    mesh = quadrature(loc, scale, torch.tensor([[True, False]]))
    assert torch.equal(mesh.y, quadrature(loc[:, :1], scale[:, :1]).y)


def test_densities_cdfs_and_logs_agree_with_scipy():
    loc, scale, weights = (
        torch.rand(2, 3, 4, dtype=f64, generator=torch.Generator().manual_seed(i)) for i in range(3)
    )
    weights = weights / weights.sum(-1, keepdim=True)
    mesh = quadrature(loc.flatten(1), scale.flatten(1))
    y = mesh.y[:, None, None, :].numpy()
    m, s, w = (t[..., None].numpy() for t in (loc, scale, weights))
    np.testing.assert_allclose(
        density(mesh, loc, scale, weights), (w * stats.norm.pdf(y, m, s)).sum(2), rtol=1e-11
    )
    np.testing.assert_allclose(
        cdf(mesh, loc, scale, weights), (w * stats.norm.cdf(y, m, s)).sum(2), rtol=1e-11
    )
    np.testing.assert_allclose(
        log_density(mesh, loc, scale, weights), np.log((w * stats.norm.pdf(y, m, s)).sum(2)), rtol=1e-11
    )


def test_the_mesh_of_a_set_does_not_depend_on_the_batch():
    generator = torch.Generator().manual_seed(0)
    loc = 5 * torch.randn(12, 3, dtype=f64, generator=generator)
    scale = torch.rand(12, 3, dtype=f64, generator=generator).pow(4) + 1e-4

    def mass(mesh, loc, scale):
        weights = torch.full_like(loc, 1 / 3)[:, None]
        return mesh.integrate(torch.special.entr(density(mesh, loc[:, None], scale[:, None], weights)))

    whole, _ = on_meshes(mass, loc, scale, None, loc, scale, per_node=200)
    alone = torch.cat(
        [
            on_meshes(mass, a, b, None, a, b, per_node=200)[0]
            for a, b in zip(loc.split(1), scale.split(1), strict=True)
        ]
    )
    torch.testing.assert_close(whole, alone, rtol=1e-15, atol=1e-15)
    chunked, _ = on_meshes(mass, loc, scale, None, loc, scale, per_node=200, memory=1 << 16)
    torch.testing.assert_close(whole, chunked, rtol=1e-15, atol=1e-15)
