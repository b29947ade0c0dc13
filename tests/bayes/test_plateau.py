"""When a training is done: losses with a known end, stopped and resumed, cut short, per member."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import pytest
import torch
from conjugate import problem
from resuming import assert_resumes
from torch import Tensor

from cbdl.bayes import likelihoods, plateau, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.data import prepare
from cbdl.bayes.methods import _modes
from cbdl.bayes.methods.ensemble import Ensemble
from cbdl.bayes.methods.mean_field import MeanField
from cbdl.bayes.plan import LEARNING_RATE, Plan
from cbdl.bayes.rows import Batch, Data
from cbdl.bayes.train import Record, Run, TrainingWarning, train


class Bowl:
    """|v - goal|^2 / 2 of every member, with noise in loss and gradient; the validation score is given."""

    def __init__(self, goals: Tensor, noise: float = 0.0, scores: list[float] | None = None) -> None:
        self.goals, self.noise, self.buffers = goals, noise, {}
        self.variables = torch.zeros_like(goals)
        self.scores = scores
        self.path: list[Tensor] = []

    def gradient(self, batch: Batch, step: int, steps: int) -> tuple[Tensor, Tensor]:
        source = torch.Generator().manual_seed(step)
        jitter = self.noise * torch.randn(self.goals.shape, generator=source, dtype=torch.float64)
        away = self.variables - self.goals
        return 0.5 * away.square().sum(1) + jitter[:, 0], away + jitter

    def validate(self, data: Data) -> Tensor:
        self.path.append(self.variables.clone())
        assert self.scores is not None
        return torch.full((len(self.goals),), self.scores[min(len(self.path), len(self.scores)) - 1])


def rows(validation: bool = False) -> Data:
    x = torch.zeros(16, 1, dtype=torch.float64)
    pair = (x, x[:, 0]) if validation else None
    data = prepare(x, x[:, 0], space="real", standardize=False, dtype=torch.float64, validation=pair)
    assert isinstance(data, Data)
    return data


def goals(*distances: float) -> Tensor:
    return torch.tensor(distances, dtype=torch.float64).unsqueeze(1).repeat(1, 3)


PLAN = Plan(batch_size=16)


def test_a_training_ends_at_the_optimum_and_not_before() -> None:
    bowl = Bowl(goals(1.0, 10.0), noise=0.05)
    record = train(bowl, rows(), PLAN, Run(), {})
    assert torch.allclose(bowl.variables, bowl.goals, atol=0.02)
    near, far = record.stopped.tolist()
    # Adam moves by its rate per step: the far goal takes 1,000 steps at the least, the rule no more than thrice that
    assert (
        10.0 / LEARNING_RATE < far < 3 * 10.0 / LEARNING_RATE + plateau.STAGES * plateau.LEAST * plateau.LOOK
    )
    assert near < far
    assert record.loss.shape[0] == far


def test_a_member_alone_is_done_when_it_is_in_company(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plateau, "LEAST", 12)
    both = train(Bowl(goals(0.2, 2.0)), rows(), PLAN, Run(), {})
    for i, goal in enumerate((0.2, 2.0)):
        alone = Bowl(goals(goal))
        record = train(alone, rows(), PLAN, Run(), {})
        assert record.stopped[0] == both.stopped[i]


def test_a_flat_loss_ends_after_the_least_number_of_looks() -> None:
    record = train(Bowl(goals(0.0)), rows(), PLAN, Run(), {})
    least = plateau.LOOK * (plateau.LEAST + (plateau.STAGES - 1) * plateau.LATER)
    assert record.stopped.tolist() == [least]


def test_a_loss_that_falls_by_more_than_the_gain_goes_on_to_the_cap_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slope(Bowl):
        def gradient(self, batch: Batch, step: int, steps: int) -> tuple[Tensor, Tensor]:
            # ln t falls by ln 1.5 > GAIN in half as much time again, for ever
            return torch.full((1,), -math.log(step + 1), dtype=torch.float64), torch.zeros_like(self.goals)

    monkeypatch.setattr("cbdl.bayes.train.CAP", 3000)
    with pytest.warns(TrainingWarning, match="still improving when the 3000 steps.*give epochs=6000"):
        record = train(Slope(goals(0.0)), rows(), PLAN, Run(), {})
    assert record.loss.shape[0] == 3000


def test_given_epochs_that_are_too_few_are_told_and_enough_are_not() -> None:
    with pytest.warns(
        TrainingWarning, match="still improving when the 60 epochs were over: member 0. To go on: leave"
    ):
        record = train(Bowl(goals(10.0)), rows(), Plan(60, 16, 1e-2), Run(), {})
    assert record.loss.shape[0] == 60
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(Bowl(goals(1.0), noise=0.05), rows(), Plan(600, 16, 1e-2), Run(), {})
        train(Bowl(goals(10.0)), rows(), Plan(2, 16, 1e-2), Run(), {})  # nothing can be said of two epochs


def test_with_validation_data_their_best_state_counts() -> None:
    scores = [5.0, 4.0, 3.0, 1.0] + [2.0] * 500
    bowl = Bowl(goals(10.0), scores=scores)
    record = train(bowl, rows(validation=True), PLAN, Run(), {})
    assert torch.equal(bowl.variables, bowl.path[3])
    assert len(bowl.path) < 400
    taken = record.score[~torch.isnan(record.score[:, 0]), 0]
    assert taken[:4].tolist() == [5.0, 4.0, 3.0, 1.0]


@pytest.mark.parametrize("method", [MeanField(), Ensemble(restarts=2)])
def test_stopped_and_resumed_gives_the_same_bits(
    method: MeanField | Ensemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"LEAST": 6, "LATER": 6, "GAIN": 0.3}.items():
        monkeypatch.setattr(plateau, name, value)
    monkeypatch.setattr(_modes, "FIRST", 100)
    cohort, data, _ = problem(scale="learned")
    # at a lower rate, and after the first count of what determines the noise
    whole, resumed = assert_resumes(method, cohort, data, tmp_path, 414)
    assert whole.record is not None
    assert resumed.record is not None
    assert torch.equal(resumed.record.stopped, whole.record.stopped)
    assert torch.equal(resumed.record.loss.nan_to_num(), whole.record.loss.nan_to_num())


def test_records_of_different_lengths_are_joined() -> None:
    short = Record(torch.ones(2, 1), torch.ones(2, 1), stopped=torch.tensor([2]))
    long = Record(torch.ones(3, 2), torch.ones(3, 2), {1: "failed"}, torch.tensor([3, 3]))
    joined = Record.join([short, long])
    assert joined.loss.shape == (3, 3)
    assert torch.isnan(joined.loss[2, 0])
    assert joined.stopped.tolist() == [2, 3, 3]
    assert joined.failures == {2: "failed"}


def test_what_a_user_gives_is_what_is_done() -> None:
    cohort, data, _ = problem()
    record = MeanField(7, lr=0.003).fit(cohort, data, Run()).record
    assert record is not None
    assert record.loss.shape[0] == 7
    plan = MeanField(lr=0.003).plan_for(cohort.layout)
    assert plan.rate(0, plateau.CAP) == 0.003
    assert MeanField().plan_for(cohort.layout).lr == LEARNING_RATE


def test_wide_networks_get_a_lower_rate() -> None:
    data = rows()
    x = torch.zeros(16, 640, dtype=torch.float64)
    wide = prepare(x, data.y, space="real", dtype=torch.float64)
    cohort = Cohort.of([priors.Normal()], likelihoods.Normal(lambda: torch.nn.Linear(640, 1)), wide)
    assert MeanField().plan_for(cohort.layout).lr == pytest.approx(LEARNING_RATE / 10)


def test_a_default_training_reaches_the_best_independent_normals() -> None:
    """Of a correlated posterior they have the exact mean and the variances 1 / precision_ii."""
    cohort, data, truth = problem(rows=40)
    mean, deviation = MeanField().fit(cohort, data, Run()).moments()
    precision = torch.linalg.inv(truth.covariance).diagonal(dim1=1, dim2=2)
    exact = truth.covariance.diagonal(dim1=1, dim2=2).sqrt()
    # one draw per step at a last rate of 3e-4: the mean within a third of a deviation, the deviation within a fifth
    assert ((mean - truth.mean).abs() < 0.33 * exact).all()
    assert ((deviation * precision.sqrt()).log().abs() < 0.2).all()


def test_a_member_that_has_stopped_early_cannot_fail_later() -> None:
    class Breaking(Bowl):
        """The first member's score is best at the first epoch, and its gradient no number from step 10 on."""

        def gradient(self, batch: Batch, step: int, steps: int) -> tuple[Tensor, Tensor]:
            loss, gradient = super().gradient(batch, step, steps)
            if step >= 10:
                gradient[0] = math.nan
            return loss, gradient

        def validate(self, data: Data) -> Tensor:
            self.path.append(self.variables.clone())
            return torch.tensor([float(len(self.path)), -float(len(self.path))])

    bowl = Breaking(goals(1.0, 1.0))
    record = train(bowl, rows(validation=True), Plan(20, 16, 1e-2, patience=3), Run(), {})
    assert record.failures == {}
    assert record.stopped.tolist() == [4, 20]
    assert torch.equal(bowl.variables[0], bowl.path[0][0])
