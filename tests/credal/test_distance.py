"""Distances from a set of class probabilities to one, against scipy, POT and the paper's proposition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import ot
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy
from torch import Tensor

from cbdl.credal.classes.distance import distance, kinds
from trials import trials

SMOOTH = ["kl", "reverse-kl", "hellinger", "chi2", "reverse-chi2", "jensen-shannon", "renyi"]


def dirichlet(*shape: int, concentration: float = 1.0, seed: int = 0) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.dirichlet(np.full(shape[-1], concentration), size=shape[:-1]))


def reference(
    q: np.ndarray, p: np.ndarray, kind: str, order: float = 2.0, cost: np.ndarray | None = None
) -> float:
    """d(q, p) with scipy and POT."""
    index = np.abs(np.subtract.outer(np.arange(len(p)), np.arange(len(p)))).astype(float)
    return float(
        {
            "kl": lambda: entropy(q, p),
            "reverse-kl": lambda: entropy(p, q),
            "tv": lambda: np.abs(q - p).sum() / 2,
            "hellinger": lambda: np.sqrt(((np.sqrt(q) - np.sqrt(p)) ** 2).sum() / 2),
            "chi2": lambda: ((q - p) ** 2 / p).sum(),
            "reverse-chi2": lambda: ((q - p) ** 2 / q).sum(),
            "jensen-shannon": lambda: jensenshannon(q, p) ** 2,
            "renyi": lambda: np.log((q**order * p ** (1 - order)).sum()) / (order - 1),
            "w1": lambda: ot.emd2(q, p, index if cost is None else cost),
            "w2": lambda: np.sqrt(max(0.0, ot.emd2(q, p, (index if cost is None else cost) ** 2))),
        }[kind]()
    )


def by_slsqp(P: Tensor, p: Tensor, kind: str, order: float) -> float:
    m = P.shape[0]
    best = np.inf
    for start in [np.full(m, 1 / m), *(np.full(m, 0.1 / m) + 0.9 * np.eye(m))[:2]]:
        found = minimize(
            lambda b: reference(np.clip(b, 1e-300, 1) @ P.numpy(), p.numpy(), kind, order),
            start,
            bounds=[(0, 1)] * m,
            constraints={"type": "eq", "fun": lambda b: b.sum() - 1},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        if abs(found.x.sum() - 1) < 1e-9:
            best = min(best, found.fun)
    return best


@pytest.mark.parametrize("kind", SMOOTH)
@pytest.mark.parametrize("shape", [(1, 3), (4, 4), (3, 10)])
def test_smooth_distances_are_those_of_slsqp(kind: str, shape: tuple[int, int]) -> None:
    P, p = dirichlet(4, *shape), dirichlet(4, shape[-1], seed=1)
    for order in (0.3, 2.0, 3.5) if kind == "renyi" else (None,):
        answer = distance(P, p, kind, order=order)
        assert answer.gap.max() < 1e-11
        for i in range(4):
            want = by_slsqp(P[i], p[i], kind, order or 1.0)
            assert answer.value[i].item() == pytest.approx(want, abs=2e-6)
            assert answer.value[i].item() <= want + 1e-9


def with_kind(kind: str) -> dict[str, object]:
    if kind == "renyi":
        return {"order": 2.5}
    return {"cost": "index"} if kind in ("w1", "w2") else {}


@pytest.mark.parametrize("kind", kinds())
def test_value_is_the_distance_at_the_weights(kind: str) -> None:
    P, p = dirichlet(6, 5, 6), dirichlet(6, 6, seed=1)
    answer = distance(P, p, kind, **with_kind(kind))  # type: ignore[arg-type]
    q = torch.einsum("bm,bmj->bj", answer.weights, P)
    for i in range(6):
        want = reference(q[i].numpy(), p[i].numpy(), kind, 2.5)
        assert answer.value[i].item() == pytest.approx(want, abs=1e-8)
    assert answer.gap.max() < 1e-7
    assert torch.allclose(answer.weights.sum(-1), torch.ones(6, dtype=torch.float64))


@given(
    st.integers(0, 10**6),
    st.integers(1, 6),
    st.integers(2, 6),
    st.sampled_from(kinds()),
    st.sampled_from([1, 0.2]),
)
@trials(60)
def test_no_mixture_is_nearer_than_the_set(
    seed: int, m: int, J: int, kind: str, concentration: float
) -> None:
    """Proposition dist_lemma: d(Pi', psi) <= d(P', psi) for every P' of the hull."""
    P, p = dirichlet(3, m, J, concentration=concentration, seed=seed), dirichlet(3, J, seed=seed + 1)
    answer = distance(P, p, kind, **with_kind(kind))  # type: ignore[arg-type]
    mixtures = torch.cat([dirichlet(3, 10, m, seed=seed + 2) @ P, P], 1)
    for i in range(3):
        for q in mixtures[i]:
            far = reference(q.numpy(), p[i].numpy(), kind, 2.5)
            assert answer.value[i].item() - answer.gap[i].item() <= far + 1e-9 * max(1.0, far)


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 8), st.sampled_from(kinds()))
@trials(60)
def test_members_are_at_distance_zero_and_others_are_not(seed: int, m: int, J: int, kind: str) -> None:
    P = dirichlet(3, m, J, seed=seed)
    inside = (dirichlet(3, 1, m, seed=seed + 1) @ P).squeeze(1)
    answer = distance(P, inside, kind, **with_kind(kind))  # type: ignore[arg-type]
    assert (answer.value < (3e-7 if kind == "w2" else 1e-9)).all()
    assert (answer.value - answer.gap <= 1e-15).all()
    if J > 1:
        corner = torch.full((3, J), 1e-6 / J, dtype=torch.float64)
        corner[:, 0] = 1 - corner[:, 1:].sum(-1)
        outside = distance(P, corner, kind, **with_kind(kind))  # type: ignore[arg-type]
        assert (outside.value - outside.gap > 0).all()


def test_wasserstein_with_a_cost_of_ones_is_total_variation() -> None:
    P, p = dirichlet(5, 3, 6), dirichlet(5, 6, seed=1)
    tv = distance(P, p, "tv")
    ones = 1 - torch.eye(6, dtype=torch.float64)
    for cost in (None, ones):
        assert torch.allclose(distance(P, p, "w1", cost=cost).value, tv.value, atol=1e-9)
        assert torch.allclose(distance(P, p, "w2", cost=cost).value, tv.value.sqrt(), atol=1e-9)


def test_wasserstein_between_two_distributions_is_that_of_pot() -> None:
    rng = np.random.default_rng(0)
    places = rng.normal(size=(7, 2))
    cost = np.linalg.norm(places[:, None] - places, axis=-1)
    P, p = dirichlet(6, 1, 7), dirichlet(6, 7, seed=1)
    P[:3, :, :2], p[:3, 4:] = 0, 0
    P, p = P / P.sum(-1, keepdim=True), p / p.sum(-1, keepdim=True)
    for kind in ("w1", "w2"):
        answer = distance(P, p, kind, cost=torch.from_numpy(cost))
        for i in range(6):
            want = reference(P[i, 0].numpy(), p[i].numpy(), kind, cost=cost)
            assert answer.value[i].item() == pytest.approx(want, abs=1e-8)


def test_index_cost_by_cumulative_sums_is_index_cost_by_transport() -> None:
    P, p = dirichlet(8, 4, 6), dirichlet(8, 6, seed=1)
    index = (torch.arange(6.0)[:, None] - torch.arange(6.0)).abs().double()
    assert torch.allclose(
        distance(P, p, "w1", cost="index").value, distance(P, p, "w1", cost=index).value, atol=1e-9
    )


def test_supports_decide_what_is_infinite() -> None:
    P = torch.tensor([[[0.5, 0.5, 0.0], [0.2, 0.0, 0.8]]], dtype=torch.float64)
    p = torch.tensor([[0.7, 0.3, 0.0]], dtype=torch.float64)
    # Only the first extreme has a finite divergence, so it must get all the weight.
    for kind, order in (("kl", None), ("chi2", None), ("renyi", 2.0)):
        answer = distance(P, p, kind, order=order)
        want = reference(np.array([0.5, 0.5]), np.array([0.7, 0.3]), kind)
        assert answer.value.item() == pytest.approx(want, abs=1e-12)
        assert answer.weights.tolist() == [[1.0, 0.0]]
        nowhere = distance(P[:, 1:], p, kind, order=order)
        assert nowhere.value.item() == np.inf
        assert nowhere.gap.item() == 0
    # Every class of p must be reached by some extreme.
    for kind in ("reverse-kl", "reverse-chi2"):
        assert distance(P[:, 1:], p, kind).value.item() == np.inf
        assert np.isfinite(distance(P, p, kind).value.item())


def test_disjoint_supports() -> None:
    P = torch.tensor([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]], dtype=torch.float64)
    p = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64)
    want = {"tv": 1, "hellinger": 1, "jensen-shannon": np.log(2), "w1": 1, "w2": 1}
    for kind in kinds():
        answer = distance(P, p, kind, order=0.5 if kind == "renyi" else None)
        assert answer.value.item() == pytest.approx(want.get(kind, np.inf), abs=1e-9)
        assert answer.gap.item() < 1e-9


def test_renyi_orders_meet_their_relatives() -> None:
    P, p = dirichlet(5, 4, 6), dirichlet(5, 6, seed=1)
    kl = distance(P, p, "kl").value
    for order in (1.0, 1 + 1e-12, 1 - 1e-12):
        assert torch.allclose(distance(P, p, "renyi", order=order).value, kl, atol=1e-10)
    half = -2 * torch.log1p(-(distance(P, p, "hellinger").value ** 2))
    assert torch.allclose(distance(P, p, "renyi", order=0.5).value, half, atol=1e-12)
    two = torch.log1p(distance(P, p, "chi2").value)
    assert torch.allclose(distance(P, p, "renyi", order=2.0).value, two, atol=1e-11)
    values = [distance(P, p, "renyi", order=a).value for a in (0.01, 0.5, 1.0, 2.0, 8.0, 40.0)]
    assert all((high >= low - 1e-9).all() for low, high in pairwise(values))


@pytest.mark.parametrize("kind", kinds())
def test_peaked_probabilities_give_certified_numbers(kind: str) -> None:
    gen = torch.Generator().manual_seed(0)
    sign = torch.randint(0, 2, (30, 4, 5), generator=gen) * 200.0 - 100
    P = torch.softmax(sign + torch.randn(30, 4, 5, generator=gen), -1).double()
    P = torch.cat([P, torch.eye(5, dtype=torch.float64).expand(30, 5, 5)[:, :1]], 1)
    P = P / P.sum(-1, keepdim=True)
    p = P[:, 0].flip(-1).clone()
    p[10:20] = torch.tensor([1e-300, 0.5, 0.5, 0.0, 0.0])
    answer = distance(P, p, kind, order=1.5 if kind == "renyi" else None)
    assert not answer.value.isnan().any()
    assert not answer.gap.isnan().any()
    finite = torch.isfinite(answer.value)
    assert (answer.gap[~finite] == 0).all()
    assert (answer.gap[finite] <= 1e-6 * answer.value[finite].clamp_min(1)).all()


@pytest.mark.parametrize("kind", kinds())
def test_shapes_of_all_kinds(kind: str) -> None:
    order = 0.7 if kind == "renyi" else None
    for m, J in ((1, 1), (64, 3), (2, 1000), (3, 2)):
        answer = distance(dirichlet(2, m, J), dirichlet(2, J, seed=1), kind, order=order)
        assert answer.value.shape == (2,)
        assert answer.weights.shape == (2, m)
        assert answer.gap.max() < (1e-7 if kind == "w2" else 1e-8)
    equal = dirichlet(2, 1, 4).expand(2, 5, 4)
    alone = distance(equal[:, :1], dirichlet(2, 4, seed=1), kind, order=order)
    assert torch.allclose(
        distance(equal, dirichlet(2, 4, seed=1), kind, order=order).value, alone.value, atol=1e-9
    )


@pytest.mark.parametrize("kind", kinds())
def test_answer_does_not_depend_on_the_batch(kind: str) -> None:
    P, p = dirichlet(12, 4, 5, concentration=0.3), dirichlet(12, 5, seed=1)
    together = distance(P, p, kind, **with_kind(kind))  # type: ignore[arg-type]
    for i in (0, 5, 11):
        alone = distance(P[i : i + 1], p[i : i + 1], kind, **with_kind(kind))  # type: ignore[arg-type]
        assert torch.allclose(alone.value, together.value[i], atol=1e-9)


def test_bad_arguments_are_named() -> None:
    P, p = dirichlet(1, 2, 3), dirichlet(1, 3)
    with pytest.raises(ValueError, match=r"kind is 'kk'.*'kl'"):
        distance(P, p, "kk")
    with pytest.raises(ValueError, match="order is None"):
        distance(P, p, "renyi")
    with pytest.raises(ValueError, match="order is -1"):
        distance(P, p, "renyi", order=-1)
    with pytest.raises(ValueError, match="order is given"):
        distance(P, p, "kl", order=2)
    with pytest.raises(ValueError, match="cost is given"):
        distance(P, p, "kl", cost="index")
    with pytest.raises(ValueError, match=r"cost has shape \(2, 2\)"):
        distance(P, p, "w1", cost=torch.ones(2, 2))
    with pytest.raises(ValueError, match=r"cost\[0, 1\] is -1"):
        distance(P, p, "w1", cost=torch.tensor([[0.0, -1, 1], [1, 0, 1], [1, 1, 0]]))
    with pytest.raises(ValueError, match="cost is 'x'"):
        distance(P, p, "w2", cost="x")  # type: ignore[arg-type]
