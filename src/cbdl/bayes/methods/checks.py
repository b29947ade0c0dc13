"""What every inference method promises, as checks that any method can be put through.

    from cbdl.bayes.methods.checks import check_method
    check_method(MyMethod(epochs=3))

trains the method on three tiny problems (classes, real numbers, counts) and raises a `ProtocolError` that says which
promise is broken. Give settings that train for a moment only. The methods of this package pass the same checks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from torch import Tensor, nn

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.checkpoint import Checkpoint
from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.data import Data, prepare
from cbdl.bayes.joint_prior import compile_priors
from cbdl.bayes.priors import PriorLike
from cbdl.bayes.train import Interrupted, Record, Run, TrainingWarning

from .protocol import MOMENT_DRAWS, Method, Posterior

Space = Literal["classes", "real", "counts"]
SPACES: tuple[Space, ...] = ("classes", "real", "counts")
DRAWS = 2000
"""Draws that moments are compared with."""


class ProtocolError(AssertionError):
    """A method does not keep a promise; the message says which."""


def _require(kept: bool, promise: str) -> None:
    if not kept:
        raise ProtocolError(promise)


MIXED: tuple[PriorLike, ...] = (
    priors.Normal(0.0, 1.0),
    {"*.bias": priors.Normal(0.0, 3.0), "*": priors.Laplace(0.0, 1.0)},
    priors.Normal(0.5, 0.3, fan_in=True),
)
"""Priors of different families and scales; a method that takes Normal ones only gets its own by `Case.priors`."""


@dataclass(frozen=True)
class Case:
    """A method and a problem to put it through; what was trained once is shared by the checks."""

    method: Method
    space: Space
    priors: tuple[PriorLike, ...] = MIXED

    @cached_property
    def problem(self) -> tuple[likelihoods.Likelihood, Data]:
        x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

        def net() -> nn.Module:
            return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))

        likelihood: likelihoods.Likelihood = likelihoods.Normal(net)
        y = 10 * x[:, :2]
        if self.space == "classes":
            likelihood, y = likelihoods.Categorical(net), (x[:, 0] > 0).long()
        elif self.space == "counts":
            likelihood, y = likelihoods.Poisson(net), x[:, :2].exp().round()
        data = prepare(x, y, space=self.space, dtype=torch.float64)
        assert isinstance(data, Data)
        return likelihood, data

    def cohort(self, *ks: int) -> Cohort:
        """The members of these priors; all three if none is named."""
        likelihood, data = self.problem
        members = [Member.of(0, k, 0) for k in (ks or range(len(self.priors)))]
        return Cohort.of(self.priors, likelihood, data, members=members)

    def fit(self, cohort: Cohort, **settings: Any) -> Posterior:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)  # chains of a few draws have not mixed
            return self.method.fit(cohort, self.problem[1], Run(**settings))

    @cached_property
    def whole(self) -> tuple[Cohort, Posterior]:
        cohort = self.cohort()
        return cohort, self.fit(cohort)


# ------------------------------------------------------------------------------------------------- the checks


def settings_are_a_frozen_dataclass(case: Case) -> None:
    method = case.method
    _require(isinstance(method, Method), "a method inherits cbdl.bayes.methods.protocol.Method")
    _require(_frozen(method), "a method is a frozen dataclass of settings")
    plain = repr(method).startswith(type(method).__name__) and " at 0x" not in repr(method)
    _require(plain, "repr(method) is the class and its settings: checkpoints tell runs apart by it")
    _require(isinstance(method.continuing(), Method), "continuing() gives a method")
    _require(isinstance(method.spread(2), Method), "spread(times) gives a method")
    temperature = method.temperature
    _require(isinstance(temperature, float | int) and temperature >= 0, "temperature is a number, at least 0")


def _frozen(method: Any) -> bool:
    kind: Any = type(method)
    return is_dataclass(method) and bool(kind.__dataclass_params__.frozen)


def training_leaves_the_cohort_alone(case: Case) -> None:
    trained, fresh = case.whole[0], case.cohort()  # made anew, it is what the other was before the training
    _require(torch.equal(fresh.initial, trained.initial), "fit does not change cohort.initial")
    _require(fresh.fingerprint() == trained.fingerprint(), "fit does not change the cohort")


def draws_have_the_members_first_and_are_numbered(case: Case) -> None:
    cohort, posterior = case.whole
    _require(isinstance(posterior, Posterior), "fit gives a cbdl.bayes.methods.protocol.Posterior")
    theta = posterior.sample(6, seed=1)
    _require(theta.shape == (cohort.size, 6, cohort.layout.size), "sample(draws) is (members, draws, P)")
    _require(theta.dtype == cohort.initial.dtype, "draws have the type of the cohort's parameters")
    _require(bool(torch.isfinite(theta).all()), "draws are finite")
    _require(_close(posterior.sample(6, seed=1), theta), "the same seed gives the same draws")
    _require(_close(posterior.sample(4, seed=1), theta[:, :4]), "fewer draws are the first of more")
    _require(_close(posterior.sample(3, seed=1, start=2), theta[:, 2:5]), "start=2 begins with draw number 2")
    _require(posterior.seeds == cohort.seeds, "seeds are the members'")
    _require(posterior.noise.shape == cohort.initial_noise.shape, "noise is (members, Q)")
    _require(posterior.buffers.keys() == cohort.initial_buffers.keys(), "buffers are the network's")


def a_state_is_enough_to_build_it_again(case: Case) -> None:
    cohort, posterior = case.whole
    state = posterior.state()
    _require(
        all(x.shape[:1] == (cohort.size,) for x in state.values()), "tensors of a state lead with the members"
    )
    again = case.method.from_state(cohort, {n: x.clone() for n, x in state.items()})
    _require(type(again) is type(posterior), "from_state(state()) is the same kind of posterior")
    _require(again.state().keys() == state.keys(), "from_state(state()) has the same state")
    _require(
        _close(again.sample(5, seed=3), posterior.sample(5, seed=3)), "from_state(state()) has the same draws"
    )


def members_can_be_picked(case: Case) -> None:
    cohort, posterior = case.whole
    picked, fewer = posterior.only([2, 0]), cohort.only([2, 0])
    _require(picked.seeds == fewer.seeds, "only(rows) picks the seeds")
    _require(
        _close(picked.sample(4, seed=2), posterior.sample(4, seed=2)[[2, 0]]), "only(rows) picks the draws"
    )
    cut = {n: x[[2, 0]] for n, x in posterior.state().items()}
    again = case.method.from_state(fewer, cut)
    _require(_close(again.sample(4, seed=2), picked.sample(4, seed=2)), "a state can be cut by its rows")
    if posterior.record is not None:
        record = picked.record
        _require(record is not None and record.loss.shape[1] == 2, "only(rows) picks the record")


def a_record_says_how_the_training_went(case: Case) -> None:
    cohort, posterior = case.whole
    record = posterior.record
    if record is None:
        return
    _require(isinstance(record, Record), "record is a Record, or None")
    _require(
        record.loss.ndim == 2 and record.loss.shape[1] == cohort.size, "record.loss is (epochs, members)"
    )
    _require(not record.failures, f"nobody fails on a harmless problem: {record.failures}")
    _require(posterior.with_record(None).record is None, "with_record(None) has none")
    joined = type(record).join([record.only([0]), record.only([1, 2])])
    _require(bool(torch.equal(joined.loss, record.loss)), "a record can be cut and joined")


def moments_are_those_of_draws(case: Case) -> None:
    cohort, posterior = case.whole
    mean, deviation = posterior.moments()
    shape = (cohort.size, cohort.layout.size)
    _require(mean.shape == shape and deviation.shape == shape, "moments() are two tensors (members, P)")
    _require(bool((deviation >= 0).all()), "standard deviations are not negative")
    _require(posterior.centre().shape == shape, "centre() is (members, P)")
    theta = posterior.sample(DRAWS, seed=5)
    away = theta - theta.mean(1, keepdim=True)
    variance, fourth = away.square().mean(1), away.pow(4).mean(1)
    # five standard errors of a mean and of a variance, and rounding; draws in pairs count half
    number = (DRAWS if type(posterior).moments is not Posterior.moments else MOMENT_DRAWS) / 2
    least = 1e-9 * (1 + theta.abs().amax(1))
    error = (theta.mean(1) - mean).abs()
    _require(bool((error <= 5 * (variance / number).sqrt() + least).all()), "the mean is that of draws")
    spread = 5 * ((fourth - variance.square()).clamp_min(0) / number).sqrt() + 5 * variance / number + least
    _require(bool(((variance - deviation.square()).abs() <= spread).all()), "the deviation is that of draws")


def a_divergence_is_a_number_for_each_member_or_none(case: Case) -> None:
    cohort, posterior = case.whole
    kl = posterior.kl(cohort)
    if kl is not None:
        _require(kl.shape == (cohort.size,), "kl(cohort) is (members,), or None")
        _require(
            bool((kl > 0).all()) and bool(torch.isfinite(kl).all()), "a KL divergence is positive and finite"
        )


def a_posterior_becomes_a_prior_or_says_that_it_cannot(case: Case) -> None:
    cohort, posterior = case.whole
    priors = posterior.priors(cohort)
    if priors is None:
        return
    _require(len(priors) == cohort.size, "priors(cohort) has one prior for each member")
    joint = compile_priors(priors, cohort.layout, device=cohort.initial.device, dtype=cohort.initial.dtype)
    mean, deviation = posterior.moments()
    _require(_close(joint.location(), mean), "its prior has the posterior's centre")
    _require(_close(joint.spread(), deviation), "its prior has the posterior's scale")


def groups_of_members_joined_are_the_whole(case: Case) -> None:
    cohort, posterior = case.whole
    parts = [case.fit(case.cohort(*ks)) for ks in ((0, 1), (2,))]
    state = {n: torch.cat([p.state()[n] for p in parts]) for n in parts[0].state()}
    joined = case.method.from_state(cohort, state)
    _require(
        bool(torch.allclose(joined.sample(5, seed=1), posterior.sample(5, seed=1), rtol=0, atol=1e-6)),
        "a member is the same, to rounding, whoever is trained with it",
    )


def a_stopped_run_goes_on_to_the_same_bits(case: Case) -> None:
    cohort, posterior = case.whole
    left = 4

    def stop() -> bool:
        nonlocal left
        left -= 1
        return left <= 0

    with TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint"
        try:
            case.fit(cohort, checkpoint=Checkpoint(path), stop=stop)
        except Interrupted:
            _require(path.exists(), "a run that is stopped leaves a checkpoint")
        resumed = case.fit(cohort, checkpoint=Checkpoint(path))
    for name, x in posterior.state().items():
        _require(
            torch.equal(x, resumed.state()[name]), f"a run that is stopped and resumed has the same {name}"
        )


CHECKS: tuple[Callable[[Case], None], ...] = (
    settings_are_a_frozen_dataclass,
    training_leaves_the_cohort_alone,
    draws_have_the_members_first_and_are_numbered,
    a_state_is_enough_to_build_it_again,
    members_can_be_picked,
    a_record_says_how_the_training_went,
    moments_are_those_of_draws,
    a_divergence_is_a_number_for_each_member_or_none,
    a_posterior_becomes_a_prior_or_says_that_it_cannot,
    groups_of_members_joined_are_the_whole,
    a_stopped_run_goes_on_to_the_same_bits,
)


def check_method(method: Method, spaces: tuple[Space, ...] = SPACES) -> None:
    """Put a method through every check; a `ProtocolError` names the first promise that it does not keep.

    - `method`: settings of the method
    - `spaces`: the kinds of outcomes to try
    """
    for space in spaces:
        case = Case(method, space)
        for check in CHECKS:
            try:
                check(case)
            except ProtocolError as error:
                where = f"{type(method).__name__} on {space}, {check.__name__}"
                raise ProtocolError(f"{where}: {error}") from None


def _close(a: Tensor, b: Tensor) -> bool:
    """Equal to rounding."""
    return a.shape == b.shape and bool(torch.allclose(a, b, rtol=1e-9, atol=1e-12))
