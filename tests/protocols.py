"""What every prior, likelihood, region, distance and study keeps: the package's own and a newcomer's.

Methods have `cbdl.bayes.methods.checks.check_method`.
"""

import csv
import json
import math
import pickle
from dataclasses import replace

import numpy as np
import torch
from scipy import integrate, stats

from cbdl.bayes.flat import Layout
from cbdl.bayes.joint_prior import compile_priors
from cbdl.credal import CategoricalCredalSet
from cbdl.studies import study as studies


def check_prior(prior):
    """The density integrates to one, draws follow it, gradients are right, and it can be sent to a worker."""
    layout = Layout.of(torch.nn.Linear(1, 1, bias=False))
    joint = compile_priors([prior], layout, device=torch.device("cpu"), dtype=torch.float64)
    assert pickle.loads(pickle.dumps(prior)) == prior
    assert type(prior).__name__ in repr(prior)

    def density(t):
        return joint.log_density(torch.from_numpy(t).reshape(1, -1, 1)).exp().numpy().reshape(t.shape)

    centre, spread = float(joint.location()), float(joint.spread())
    ends = centre + spread * np.array([-math.inf, -8, -1, 0, 1, 8, math.inf])
    # double exponential: for ends at infinity, and for a peak that is infinite at the centre
    masses = integrate.tanhsinh(density, ends[:-1], ends[1:]).integral
    assert abs(masses.sum() - 1) < 1e-5
    draws = joint.draw([1], 4000)[0, :, 0].numpy()
    inside = masses[3]
    seen = np.mean((draws > centre) & (draws < centre + spread))
    assert abs(seen - inside) < 5 * math.sqrt(inside * (1 - inside) / len(draws))  # five standard errors
    at = torch.tensor([[centre + 0.7 * spread]], dtype=torch.float64)
    assert torch.autograd.gradcheck(joint.log_density, at.requires_grad_())


def check_likelihood(likelihood, outputs, targets):
    """Densities sum to one, outcomes follow them, written slopes are the derivatives.

    outputs (batch, ...) of a network, and targets (batch, *event) that fit it; for classes and counts every outcome
    from 0 on is summed, for real numbers the density of one coordinate is integrated.
    """
    likelihood.check_outputs(tuple(outputs.shape[1:]), targets)
    unit = torch.ones(targets.shape[1:] if likelihood.space != "classes" else (), dtype=torch.float64)
    loc = torch.zeros_like(unit)
    out = outputs.double().expand(1, 1, *outputs.shape).clone()
    noise = likelihood.noise(unit).double().expand(1, -1)

    def densities(y):
        return likelihood.log_density(out, y, noise, unit).exp()[0, 0]

    if likelihood.space == "classes":
        probs = likelihood.describe(out, noise, loc, unit)["probs"][0, 0]
        labels = range(probs.shape[-1])
        each = torch.stack([densities(torch.full_like(targets, c)) for c in labels], -1)
        torch.testing.assert_close(each.sum(-1), torch.ones_like(each[:, 0]), rtol=0, atol=1e-9)
        torch.testing.assert_close(each, probs, rtol=1e-9, atol=1e-12)
    _check_outcomes(likelihood, out, noise, loc, unit)
    _check_slope(likelihood, out, targets, noise, unit)


def _check_outcomes(likelihood, out, noise, loc, unit):
    """Means of drawn outcomes are those that `describe` says, within five standard errors."""
    many = out.expand(1, 4000, *out.shape[2:])
    source = torch.Generator().manual_seed(0)
    drawn = likelihood.draw(many, noise, loc, unit, source)[0].double()
    numbers = likelihood.describe(out, noise, loc, unit)
    if "probs" in numbers:
        probs = numbers["probs"][0, 0]
        seen = torch.nn.functional.one_hot(drawn.long(), probs.shape[-1]).double().mean(0)
        error = (probs * (1 - probs) / len(drawn)).sqrt()
        assert ((seen - probs).abs() <= 5 * error + 1e-12).all()
        return
    mean = numbers["loc"][0, 0] if "loc" in numbers else numbers["rate"][0, 0]
    assert ((drawn.mean(0) - mean).abs() <= 5 * drawn.std(0) / math.sqrt(len(drawn)) + 1e-12).all()


def _check_slope(likelihood, out, y, noise, unit):
    slope = likelihood.slope(out, y, noise, unit)
    if slope is None:
        return
    leaves = [out.clone().requires_grad_(), noise.clone().requires_grad_()]
    total = likelihood.log_density(leaves[0], y, leaves[1], unit).sum(-1)
    by_out, by_noise = torch.autograd.grad(total.sum(), leaves, allow_unused=True)
    torch.testing.assert_close(slope[0].sum(-1), total.detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(slope[1], by_out, rtol=1e-7, atol=1e-9)
    if by_noise is not None and by_noise.numel():
        torch.testing.assert_close(slope[2].sum((1, 2)), by_noise, rtol=1e-7, atol=1e-9)


def check_class_region(method):
    """Covers 1 - alpha under every extreme, treats classes alike, and does not look at its neighbours."""
    source = np.random.default_rng(0)
    probs = source.dirichlet(np.full(6, 0.7), size=(40, 3))
    for alpha in (0.01, 0.1, 0.5):
        region = CategoricalCredalSet(probs).region(alpha, method)
        inside = (probs * region.mask[:, None]).sum(-1)
        assert (inside >= 1 - alpha - 1e-9).all()
        np.testing.assert_allclose(region.lower_probability, inside.min(1), atol=1e-12)
        order = source.permutation(6)
        other = CategoricalCredalSet(probs[..., order]).region(alpha, method)
        np.testing.assert_array_equal(other.measure, region.measure)
        alone = CategoricalCredalSet(probs[7]).region(alpha, method)
        np.testing.assert_array_equal(alone.mask, region.mask[7])


def check_class_distance(kind, **settings):
    """Zero inside the hull, no farther than any extreme, certified; and it grows outside."""
    source = np.random.default_rng(1)
    probs = source.dirichlet(np.ones(5), size=(30, 3))
    credal = CategoricalCredalSet(probs)
    weights = source.dirichlet(np.ones(3), size=30)
    inside = np.einsum("bm,bmj->bj", weights, probs)
    np.testing.assert_allclose(credal.distance(inside, kind, **settings), 0, atol=2e-6)
    target = source.dirichlet(np.ones(5), size=30)
    answer = credal.distance(target, kind, certificate=True, **settings)
    assert (np.asarray(answer.gap) >= 0).all()
    assert (np.asarray(answer.value) >= 0).all()
    for j in range(3):
        one = CategoricalCredalSet(probs[:, [j]]).distance(target, kind, **settings)
        assert (np.asarray(answer.value) - np.asarray(answer.gap) <= one + 1e-9).all()
    mixed = np.einsum("bm,bmj->bj", np.asarray(answer.weights), probs)[:, None]
    there = CategoricalCredalSet(mixed).distance(target, kind, **settings)
    np.testing.assert_allclose(answer.value, there, atol=2e-6, rtol=1e-6)


def check_study(study, folder):
    """The shortest profile runs, is the same again, and its report holds every table."""
    profile = study.profiles[0]
    shown = []
    numbers = studies.run(study, profile, folder, 0, show=shown.append)
    assert list(numbers) == [part.name for part in shown]
    # of a study that can be confined, one of its choices is enough to see it
    one = next((choice for choice in study.choices if choice in numbers), None)
    again = studies.run(study, profile, None, 0, only=() if one is None else (one,))
    assert again == numbers if one is None else again[one] == numbers[one]
    check_report(numbers, folder)
    assert replace(study, name="other").name == "other"


def check_report(numbers, folder):
    """The folder of a run holds its numbers, and every table as a file of its own and on the page."""
    assert numbers == json.loads((folder / "numbers.json").read_text())
    page = (folder / "RESULTS.md").read_text()
    for name in numbers:
        header, *rows = csv.reader((folder / f"{name}.csv").read_text().splitlines())
        assert rows
        assert all(len(row) == len(header) for row in rows)
        assert all(cell in page for row in rows for cell in row)


def uniform(values):
    """Whether numbers look uniform on [0, 1]; for rank statistics."""
    return stats.kstest(values, "uniform").pvalue > 1e-4
