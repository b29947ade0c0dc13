"""CMA-ES for many problems: generation by generation what the package `cmaes` does with the same candidates."""

import numpy as np
import pytest
from cmaes import CMA

from cbdl.studies.pancreas.evolution import Evolution, Solver, Strategy


def rosenbrock(x):
    return (100.0 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2).sum(-1)


def sphere(x):
    return ((x - 0.3) ** 2).sum(-1)


@pytest.mark.parametrize("n", [2, 5])
def test_every_generation_is_that_of_cmaes(n):
    rng = np.random.default_rng(0)
    start = rng.uniform(-1, 1, (3, n))
    sigma = np.array([0.2, 0.5, 1.3])
    ours = Evolution(start, sigma, Strategy.of(n))
    theirs = [CMA(mean=start[b], sigma=sigma[b]) for b in range(3)]
    assert ours.strategy.population == theirs[0].population_size
    for _ in range(30):
        candidates = ours.candidates(rng.standard_normal((3, ours.strategy.population, n)))
        costs = np.stack([rosenbrock(candidates[0]), sphere(candidates[1]), candidates[2, :, 0]])
        ours.learn(candidates, costs)
        for b, other in enumerate(theirs):
            other.tell(list(zip(candidates[b], costs[b], strict=True)))
        np.testing.assert_allclose(ours.mean, [o.mean for o in theirs], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(ours.sigma, [o._sigma for o in theirs], rtol=1e-7)
        np.testing.assert_allclose(ours.covariance, [o._C for o in theirs], rtol=1e-6, atol=1e-9)


def test_candidates_have_the_mean_and_the_covariance():
    evolution = Evolution(np.array([[1.0, -2.0]]), np.array([0.5]), Strategy.of(2))
    rng = np.random.default_rng(1)
    for _ in range(5):
        candidates = evolution.candidates(rng.standard_normal((6, 2)))
        evolution.learn(candidates, rosenbrock(candidates))
    many = evolution.candidates(rng.standard_normal((200_000, 2)))[0]
    np.testing.assert_allclose(many.mean(0), evolution.mean[0], atol=0.01)
    wanted = evolution.sigma[0] ** 2 * evolution.covariance[0]
    np.testing.assert_allclose(np.cov(many.T), wanted, rtol=0.03, atol=0.001)


def test_problems_do_not_see_each_other_and_bounds_hold():
    goal = np.array([[0.2, 0.9, 0.5], [-1.0, 0.5, 2.0], [0.7, 0.1, 0.4]])  # the second lies outside the box
    solver = Solver(3, generations=40, seed=3)
    start = np.full((3, 3), 0.5)

    def cost(of):
        return lambda x: ((x - goal[of, None]) ** 2).sum(-1)

    together = solver.solve(cost([0, 1, 2]), start)
    np.testing.assert_allclose(together, np.clip(goal, 0, 1), atol=0.02)
    for b in range(3):
        np.testing.assert_allclose(solver.solve(cost([b]), start[:1]), together[b : b + 1], atol=1e-6)


def test_the_start_is_in_the_race():
    start = np.array([[0.25, 0.75]])
    best = Solver(2, generations=2, seed=0).solve(lambda x: np.abs(x - start[:, None]).sum(-1), start)
    np.testing.assert_array_equal(best, start)


def test_a_smaller_box_holds_the_best_of_its_own():
    """The squared distance to a point outside: the nearest point of each problem's box."""
    goal, low, high = np.array([0.9, 0.1]), np.array([0.0, 0.4, 0.2]), np.array([1.0, 0.6, 0.2])
    own = Solver(2, generations=60, seed=0).solve(
        lambda x: ((x - goal) ** 2).sum(-1), np.full((3, 2), 0.5), low, high
    )
    np.testing.assert_allclose(own, np.clip(goal, low[:, None], high[:, None]), atol=1e-3)
