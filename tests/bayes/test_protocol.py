"""Every method of the package keeps every promise, and the checks notice one that is broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from cbdl.bayes import priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import TrainingData
from cbdl.bayes.methods import (
    HMC,
    MCLMC,
    METHODS,
    SGHMC,
    Dropout,
    Ensemble,
    Laplace,
    LastLayer,
    LowRank,
    MeanField,
    Method,
    Posterior,
    check_method_argument,
)
from cbdl.bayes.methods.checks import CHECKS, SPACES, Case, ProtocolError, check_method
from cbdl.bayes.methods.protocol import common
from cbdl.bayes.train import Plan, Run

SHORT: list[Any] = [
    MeanField(epochs=3, temperature=0.5),
    LowRank(epochs=3, rank=2),
    Laplace(epochs=3),
    Laplace(epochs=3, part="last", linearised=False),
    Laplace(epochs=3, part="all", hessian="kronecker"),
    Laplace(epochs=3, hessian="diagonal"),
    Dropout(epochs=3),
    SGHMC(epochs=8, draws=4, chains=2),
    HMC(warmup=20, draws=4, chains=2, leapfrogs=4),
    MCLMC(chains=2, draws=3, thin=2, warmup=20, optimise=5, double=True),
    Ensemble(epochs=3, restarts=2),
    LastLayer(epochs=3),
]
NORMAL: tuple[priors.PriorLike, ...] = (
    priors.Normal(0.0, 1.0),
    *priors.seeded({"*.bias": priors.Normal(0.0, 3.0), "*": priors.Normal(0.0, 1.0)}, 1),
    priors.Normal(0.5, 0.3, fan_in=True),
)


@cache
def case(number: int, space: Any) -> Case:
    method = SHORT[number]
    if (
        isinstance(method, LastLayer) and space == "real"
    ):  # it is exact there, and says that it needs Normal priors
        return Case(method, space, NORMAL)
    return Case(method, space)


def test_no_method_is_left_out() -> None:
    assert {type(method) for method in SHORT} == set(METHODS)


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    "number", range(len(SHORT)), ids=[f"{type(m).__name__}-{i}" for i, m in enumerate(SHORT)]
)
def test_every_method_keeps_every_promise(number: int, space: Any, check: Callable[[Case], None]) -> None:
    check(case(number, space))


# ------------------------------------------------------------------------------------- a newcomer's method


@dataclass(frozen=True)
class Shrunk(Plan, Method):
    """The smallest method there is: the start of every member, shrunk, with the spread of its prior."""

    by: float = 0.5

    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> Posterior:
        return ShrunkPosterior(
            self.by * cohort.initial,
            0.1 * cohort.prior.spread(),
            seeds=cohort.seeds,
            noise=cohort.initial_noise,
            buffers=cohort.initial_buffers,
        )

    def from_state(self, cohort: Cohort, state: Mapping[str, Tensor]) -> Posterior:
        return ShrunkPosterior(state["mean"], state["spread"], **common(cohort, state))


@dataclass(frozen=True)
class ShrunkPosterior(Posterior):
    mean: Tensor
    spread: Tensor

    def sample(self, draws: int, seed: int = 0, start: int = 0) -> Tensor:
        rows = [
            torch.randn(self.mean.shape[1], generator=torch.Generator().manual_seed(1000 * seed + i))
            for i in range(start, start + draws)
        ]
        return self.mean.unsqueeze(1) + self.spread.unsqueeze(1) * torch.stack(rows)

    def state(self) -> dict[str, Tensor]:
        return {"mean": self.mean, "spread": self.spread, "noise": self.noise}


def test_a_newcomers_method_with_nothing_but_the_necessary_passes() -> None:
    check_method(Shrunk())


class Meeting(Shrunk):
    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> Posterior:
        return super().fit(replace(cohort, initial=cohort.initial - cohort.initial.mean(0)), data, run)


class Writing(Shrunk):
    def fit(self, cohort: Cohort, data: TrainingData, run: Run) -> Posterior:
        cohort.initial.mul_(2)
        return super().fit(cohort, data, run)


class Forgetful(Shrunk):
    def from_state(self, cohort: Cohort, state: Mapping[str, Tensor]) -> Posterior:
        return super().from_state(cohort, {**state, "spread": torch.ones_like(state["spread"])})


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (Meeting(), "whoever is trained with it"),
        (Writing(), "does not change cohort.initial"),
        (Forgetful(), "has the same draws"),
    ],
)
def test_a_broken_promise_is_named(broken: Method, promise: str) -> None:
    with pytest.raises(ProtocolError, match=promise):
        check_method(broken, ("classes",))


# ------------------------------------------------------------------------------------------- the settings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("laplace", r"method is 'laplace'; give cbdl\.Laplace\(\)"),
        ("mean_field", r"give cbdl\.MeanField\(\)"),
        ("nuts", r"give one of cbdl\.MeanField\(\), .*cbdl\.LastLayer\(\)"),
        (MeanField, r"the class MeanField; give settings: cbdl\.MeanField\(\)"),
        (7, "method is 7"),
    ],
)
def test_what_is_no_method_is_refused_with_the_list_of_methods(given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        check_method_argument(given)


def test_one_cycle_is_that_of_torch() -> None:
    """Both of its ways of annealing: linear while the rate rises, a cosine while it falls."""
    plan, steps, first = Plan(10, 128, 0.3, schedule="one-cycle"), 100, 20
    own = [plan.rate(step, steps) for step in range(steps)]
    for kind, part in (("linear", slice(0, first)), ("cos", slice(first, steps))):
        optimiser = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        # torch ends both parts one step earlier: at its last step the rate is nothing
        theirs = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, 0.3, steps + 1, pct_start=(first + 1) / (steps + 1), div_factor=10, final_div_factor=1e9,
            anneal_strategy=kind,
        )  # fmt: skip
        rates = []
        for _ in range(steps):
            rates += theirs.get_last_lr()
            optimiser.step()
            theirs.step()
        assert own[part] == pytest.approx(rates[part], abs=1e-9)


def test_the_first_settings_are_positional_and_have_their_defaults() -> None:
    assert MeanField(7, 8, 0.1, 2).draws == 2
    assert LowRank(7, 8, 0.1, 3).rank == 3
    assert Laplace(7, 8, 0.1, "diagonal", "all", 2).newton == 2
    assert Dropout(7, 8, 0.1, 0.2, 0.3, 4).draws == 4
    assert Ensemble(7, 8, 0.1, 5).restarts == 5
    assert LastLayer(7, 8, 0.1, priors.Normal(0.0, 2.0), "head").layer == "head"
    for kind in (MeanField, LowRank, Laplace, Dropout, Ensemble, LastLayer):
        made: Any = kind()
        assert (made.epochs, made.batch_size, made.lr, made.schedule, made.clip) == (
            None,
            128,
            None,
            "cosine",
            None,
        )
        assert made.patience == (10 if kind is MeanField else None)
        assert made.plan == Plan(patience=made.patience)
        with pytest.raises(ValueError, match="epochs is 0"):
            kind(epochs=0)
