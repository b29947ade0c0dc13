"""Rows that members have not seen: folds in the batch, weights, and what a model does with them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import cbdl
from cbdl.bayes import likelihoods, priors
from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.data import Data, prepare
from cbdl.bayes.learned import Part
from cbdl.bayes.plausible import GridWarning
from cbdl.bayes.train import Interrupted, Run
from cbdl.evaluate.conformal import Conformity, conformity
from cbdl.steps.fitting import verdict
from cbdl.steps.left_out import folds_for


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))


def rows(count: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    source = np.random.default_rng(seed)
    X = source.normal(size=(count, 2))
    return X, X[:, 0] - 0.5 * X[:, 1] + 0.3 * source.normal(size=count)


def model(**settings: object) -> cbdl.CBDL:
    chosen = {"method": cbdl.MCLMC(chains=2, draws=20, thin=3, warmup=60, optimise=60), **settings}
    return cbdl.CBDL(
        [priors.Normal(0, 1), priors.Normal(0, 3)],
        [likelihoods.Normal(net)],
        verbose=False,
        **chosen,  # type: ignore[arg-type]
    )


BRIEF = cbdl.MCLMC(chains=2, draws=5, thin=2, warmup=20, optimise=20, double=True)
"""In float64 and so short that rounding does not grow to anything."""


@pytest.mark.parametrize("way", ["wide", "vmap", "loop"])
def test_a_member_that_leaves_out_a_fold_has_the_gradient_of_the_others_alone(way: str) -> None:
    X, y = rows()
    data = prepare(X, y, space="real", dtype=torch.float64)
    assert isinstance(data, Data)
    apart = data.in_folds(4, seed=1)
    assert apart.folds is not None
    assert torch.bincount(apart.folds).tolist() == [10, 10, 10, 10]
    member = Member.of(0, 0, 0)
    members = (member, member.without(2), member.without(0))
    cohort = Cohort.of([priors.Normal()], likelihoods.Normal(net), data, members=members, way=way)  # type: ignore[arg-type]
    theta = torch.randn(3, 2, cohort.layout.size, dtype=torch.float64)
    noise = torch.zeros(3, 1, dtype=torch.float64)
    (batch,) = apart.parts(100)
    ours = cohort.gradient(theta, noise, batch, {}, 1.0)
    for i, fold in enumerate((None, 2, 0)):
        keep = torch.ones(40, dtype=torch.bool) if fold is None else apart.folds != fold
        part = replace(batch, x=batch.x[keep], y=batch.y[keep], folds=None)
        own = cohort.only([0]).gradient(theta[i : i + 1], noise[i : i + 1], part, {}, 1.0)
        for a, b in zip(ours, own, strict=True):
            torch.testing.assert_close(a[i : i + 1], b, rtol=1e-9, atol=1e-12)


def test_what_a_fold_holds_does_not_reach_its_own_members() -> None:
    """Outcomes of one fold become absurd: the predictions of its rows stay, those of other rows do not."""
    X, y = rows()
    plain = model(standardize=False, method=BRIEF, dtype=torch.float64).fit(X, y, folds=4)
    assert isinstance(plain._data, Data)
    assert plain._data.folds is not None
    fold = (plain._data.folds == 1).numpy()
    other = np.where(fold, y + 5.0, y)
    moved = model(standardize=False, method=BRIEF, dtype=torch.float64).fit(X, other, folds=4)
    one, two = (m.left_out().predictive.numbers[0].mean((1, 2)).numpy() for m in (plain, moved))
    np.testing.assert_allclose(one[fold], two[fold], atol=1e-6)
    assert np.abs(one[~fold] - two[~fold]).mean() > 1e-3


def test_folds_do_not_change_the_members_themselves() -> None:
    X, y = rows()
    with_folds, without = (
        model(method=BRIEF, dtype=torch.float64).fit(X, y, folds=count) for count in (3, 0)
    )
    for a, b in zip(with_folds.learned.parts.values(), without.learned.parts.values(), strict=True):
        assert a.cohort.members == b.cohort.members
        torch.testing.assert_close(a.posterior.sample(4), b.posterior.sample(4), rtol=0, atol=1e-6)


def part_chains(part: Part) -> torch.Tensor:
    chains = part.posterior.chains()
    assert chains is not None
    return chains[0]


def test_members_that_folds_refute_are_not_trained_on_all_rows() -> None:
    X, y = rows(60)
    absurd = priors.Normal(0, 1e-3)
    made = cbdl.CBDL(
        [priors.Normal(0, 2), absurd],
        [likelihoods.Normal(net, scale=0.3)],
        cbdl.MCLMC(chains=2, draws=20, thin=3, warmup=60, optimise=200),
        plausible=0.05,
        verbose=False,
    ).fit(X, y)
    assert [(m.k, m.s) for m in made.learned.members] == [(0, 0)]
    assert made.learned.parts[0].cohort.size == 1
    assert made.plausibility is not None
    assert [m.k for m in made.plausibility.dropped] == [1]
    assert made.left_out().score.shape == (60, 1)


@pytest.mark.filterwarnings("ignore::cbdl.bayes.plausible.GridWarning")  # such priors
def test_two_members_stay_of_a_regression_even_if_one_is_refuted() -> None:
    X, y = rows(60)
    absurd = priors.Normal(0, 1e-3)
    settings = {"architectures": ((4,),), "noise": 0.3, "steps": 200, "random_state": 0, "verbose": False}
    priors_of = {"priors": [absurd, priors.Normal(0, 2), priors.Normal(1, 1e-4)]}
    own = cbdl.CredalRegressor(**settings, **priors_of).fit(X, y).model_
    assert len(own.learned.members) == 2
    assert own.plausibility is not None
    assert len(own.plausibility.dropped) == len(own.plausibility.spared) == 1
    assert (own.predict(X[:5]).uncertainty().epistemic > 0).all()
    alone = cbdl.CredalRegressor(**settings, **priors_of, plausible=1.0).fit(X, y).model_
    assert [m.k for m in alone.learned.members] == [1]


def test_a_grid_of_priors_that_ends_too_soon_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = rows(60)
    own = replace(
        model().fit(X, y).left_out("weights"), score=torch.tensor([[-3.0, -2.0, 0.0]]).repeat(60, 1)
    )
    three = [priors.Normal(0, scale) for scale in (1, 2, 4)]
    with pytest.warns(GridWarning, match="give priors that are wider still"):
        verdict(own, tuple(Member(k, 0, 0) for k in range(3)), three, 0.05, 1, verbose=True)
    assert "refute" in (told := capsys.readouterr().err)
    assert "give priors" not in told


def test_a_run_by_folds_that_is_stopped_goes_on(tmp_path: Path) -> None:
    """Stopped while all rows are learned: the folds are not learned again, and all is as if it had never stopped."""
    X, y = rows()
    whole = model(method=BRIEF, plausible=0.01).fit(X, y)
    asked = iter([False] * 45 + [True] * 1000)
    stopped = model(method=BRIEF, plausible=0.01)
    run = Run(verbose=False, stop=lambda: next(asked))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cbdl.CBDL, "_run", property(lambda self: run))
        with pytest.raises(Interrupted, match="make the same call again"):
            stopped.fit(X, y, checkpoint_dir=tmp_path)
    assert (tmp_path / "folds").is_dir()
    assert len(list(tmp_path.glob("*.safetensors"))) == 1
    again = model(method=BRIEF, plausible=0.01).fit(X, y, checkpoint_dir=tmp_path)
    assert torch.equal(*(part_chains(m.learned.parts[0]) for m in (again, whole)))
    assert torch.equal(again.left_out().score, whole.left_out().score)


def test_members_that_stay_are_given_the_chains_of_the_others(tmp_path: Path) -> None:
    X, y = rows()
    made = model(method=BRIEF, plausible=1.0).fit(X, y, extra=3)
    alone = model(method=BRIEF, plausible=1.0).fit(X, y)
    # Two pairs of two chains were planned, of which one pair is left: twice the chains, each with half the draws.
    assert [len(m.learned.members) for m in (made, alone)] == [1, 1]
    chains, before = (part_chains(m.learned.parts[0]) for m in (made, alone))
    assert (chains.shape[1:3], before.shape[1:3]) == ((4, 2), (2, 5))
    assert len({tuple(chain[0].tolist()) for chain in chains[0]}) == 4
    assert made.method == BRIEF
    made.save(tmp_path / "model")
    again = cbdl.load(tmp_path / "model", nets=[net])
    np.testing.assert_allclose(again.predict(X[:3], 8).loc, made.predict(X[:3], 8).loc, rtol=0, atol=1e-12)
    everyone = model(method=BRIEF).fit(X, y, folds=5, extra=3)
    assert part_chains(everyone.learned.parts[0]).shape[1] == 2
    with pytest.raises(ValueError, match="extra is 0"):
        model(method=BRIEF).fit(X, y, folds=5, extra=0)


def test_a_method_is_spread_over_more_chains() -> None:
    many = cbdl.MCLMC(chains=4, draws=100, thin=62).spread(3)
    assert (many.chains, many.draws, many.thin) == (12, 33, 187)
    assert many.draws * many.thin <= 100 * 62 < many.draws * many.thin * 1.02
    assert cbdl.MCLMC(chains=1, draws=2, thin=5).spread(7).draws == 1
    assert cbdl.MCLMC().spread(1) == cbdl.MCLMC()
    assert cbdl.MeanField().spread(3) == cbdl.MeanField()


def test_left_out_rows_score_as_fresh_ones_do() -> None:
    X, y = rows(60)
    made = model().fit(X, y, folds=5)
    X_fresh, y_fresh = rows(2000, seed=9)
    fresh = made.predict(X_fresh, samples=40)
    z = (y_fresh[:, None, None] - fresh.loc) / fresh.scale
    truth = np.log((fresh.weights * np.exp(-0.5 * z**2) / fresh.scale / np.sqrt(2 * np.pi)).sum(-1))
    ours = made.left_out()
    assert ours.way == "folds"
    error = ours.score.std(0) / 60**0.5 + 0.02
    assert (np.abs(ours.score.mean(0).numpy() - truth.mean(0)) < 4 * error.numpy()).all()
    assert ours.rows.tolist() == list(range(60))


def test_of_many_rows_some_are_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows()
    whole = model(method=BRIEF, dtype=torch.float64).fit(X, y, folds=4).left_out()
    monkeypatch.setattr("cbdl.steps.left_out.ROWS", 15)
    some = model(method=BRIEF, dtype=torch.float64).fit(X, y, folds=4).left_out()
    assert len(some.rows) == 15
    assert torch.equal(some.rows, some.rows.unique())
    torch.testing.assert_close(some.score, whole.score[some.rows], rtol=0, atol=1e-6)
    assert len(some.counts) == len(some.predictive.numbers[0]) == 15


@pytest.mark.parametrize("folds", [0, 3])
def test_scores_are_densities_in_the_units_of_the_outcomes(folds: int) -> None:
    """Outcomes in thousandths: every density is a thousandth."""
    X, y = rows(20)
    short = cbdl.MeanField(epochs=3)
    one, other = (
        model(method=short, dtype=torch.float64).fit(X, unit * y, folds=folds).left_out()
        for unit in (1.0, 1000.0)
    )
    assert one.way == ("folds" if folds else "weights")
    torch.testing.assert_close(other.score, one.score - np.log(1000), rtol=0, atol=1e-8)


def test_refuted_members_fall_and_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = rows(80)
    made = cbdl.CBDL(
        [priors.Normal(0, 0.001), priors.Normal(0, 2)],
        [likelihoods.Normal(net)],
        cbdl.MCLMC(chains=2, draws=20, thin=3, warmup=100, optimise=100),
        plausible=0.01,
        verbose=False,
    ).fit(X, y)
    assert [m.k for m in made.learned.members] == [1]
    assert made.plausibility is not None
    assert [m.k for m in made.plausibility.dropped] == [0]
    assert made.left_out().score.shape == (80, 1)
    assert made.predict(X[:3]).num_extremes == 1
    assert "1 member kept" in repr(made)
    assert capsys.readouterr().err == ""
    kept_all = model().fit(X, y)
    assert kept_all.plausibility is None
    kept_all.verbose = True
    kept_all.plausible(0.0)
    assert "left out by weights" in capsys.readouterr().err
    assert len(kept_all.learned.members) == 2


def test_regions_at_the_level_of_left_out_rows_cover_fresh_ones() -> None:
    X, y = rows(100)
    made = model().fit(X, y, folds=5)
    levels = made.conformity()
    assert "5 folds" in repr(levels)
    X_fresh, y_fresh = rows(4000, seed=5)
    region = levels.region(made.predict(X_fresh, samples=30), 0.1)
    # 100 rows know the quantile to about 0.03; three of those
    assert abs(region.contains(y_fresh).mean() - 0.9) < 0.09


def test_what_cannot_be_left_out_is_said() -> None:
    X, y = rows()
    made = model().fit(X, y)
    with pytest.raises(ValueError, match="fit with folds=5"):
        made.left_out("folds")
    with pytest.raises(ValueError, match="how is"):
        made.left_out("maybe")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="folds is 1"):
        made.fit(X, y, folds=1)
    with pytest.raises(ValueError, match="plausible is 2"):
        model(plausible=2.0)


def test_folds_are_trained_where_they_are_needed() -> None:
    assert folds_for("auto", 0.01) == 5
    assert folds_for(None, 0.0) == 0
    assert folds_for(None, 0.01) == 5
    assert folds_for("weights", 0.01) == 0
    assert folds_for("folds", 0.0) == 5
    with pytest.raises(ValueError, match="calibration is 'x'"):
        folds_for("x", 0.0)


def test_a_pickled_model_keeps_its_members_and_forgets_its_rows() -> None:
    made = pickle.loads(pickle.dumps(model().fit(*rows(), folds=3)))
    with pytest.raises(ValueError, match="right after fit"):
        made.left_out()


def test_rows_of_no_weight_have_no_say_in_calibration() -> None:
    """Every third of 600 rows, which are just those that a third of them would be compared on."""
    X, y = rows(600)
    weights = np.ones(600)
    weights[::3] = 0
    levels = model(method=BRIEF).fit(X, y, folds=3, sample_weight=weights).conformity()
    assert levels.counts.tolist() == [1.0] * 400
    Conformity.from_json(levels.to_json())  # which refuses counts of 0


def test_levels_of_folds_are_carried_to_the_members_that_stay_and_those_of_weights_are_not() -> None:
    X, y = rows(60)
    fitted = model().fit(X, y, folds=3)
    for how, moved in (("folds", True), ("weights", False)):
        fitted._left_out = fitted._left_out if how == "folds" else None
        left = fitted.left_out(how)  # type: ignore[arg-type]
        needed = conformity(left.predictive.credal_set(fitted.learned.members, None), y[left.rows.numpy()])
        same = np.allclose(fitted.conformity(how).log_survival, needed.log_survival, rtol=1e-3)  # type: ignore[arg-type]
        assert same != moved
