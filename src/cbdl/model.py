"""Algorithm 1 of the paper, steps 1 to 6, in a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.data import TrainingData, as_input, prepare
from cbdl.bayes.devices import check_device
from cbdl.bayes.diagnostics import Diagnostics, diagnose
from cbdl.bayes.likelihoods import Likelihood, agree
from cbdl.bayes.methods.mean_field import MeanField
from cbdl.bayes.methods.protocol import Method, Posterior, check_method_argument
from cbdl.bayes.priors import PriorLike
from cbdl.bayes.train import Run
from cbdl.conformal import Calibration, calibrate
from cbdl.continual import continued
from cbdl.credal._border import Array
from cbdl.credal.base import CredalSet
from cbdl.engines import Engine, Local, Task, tasks
from cbdl.prediction import (
    DRAWS,
    MAX_MEMORY,
    Form,
    Learned,
    Predictive,
    predictive,
    predictive_auto,
    simulate,
)
from cbdl.store import save


class CBDL:
    """K priors and S likelihoods in; K x S Bayesian networks trained; every prediction is a credal set.

    Step 1: `priors`, the extreme elements of the prior credal set.
    Step 2: `likelihoods`, network and noise model, the extreme elements of the likelihood credal set.
    Step 3: `fit` approximates the posterior of every pair by `method`, all priors of a likelihood at once.
    Step 4: `predict` gives the predictive distributions of all pairs, the extremes of a credal set.
    Step 5: `predict(X).uncertainty()`. Step 6: `predict(X).region(alpha)`, or `predict(X).decide("maximin")`.

    `standardize=False` uses inputs and targets as they are, so that priors mean what they say.

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> model = cbdl.CBDL(
    ...     priors=[cbdl.priors.Normal(0, 1), cbdl.priors.Normal(0, 3)],
    ...     likelihoods=[cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, hidden=(8,)), scale=0.1)],
    ...     method=cbdl.MeanField(epochs=20), verbose=False,
    ... ).fit(X, X[:, 0] ** 2)
    >>> model.predict(X[:3]).region(0.05).measure.shape
    (3,)
    """

    def __init__(
        self,
        priors: Sequence[PriorLike],
        likelihoods: Sequence[Likelihood],
        method: Method | None = None,
        *,
        seed: int = 0,
        standardize: bool = True,
        trainable: str | Sequence[str] | None = None,
        engine: Engine | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        verbose: bool = True,
    ) -> None:
        if not len(priors) or not len(likelihoods):
            raise ValueError("priors and likelihoods must each hold at least one element")
        agree(tuple(likelihoods))
        self.priors, self.likelihoods = tuple(priors), tuple(likelihoods)
        self.method: Method = MeanField() if method is None else method
        check_method_argument(self.method)
        self.seed, self.standardize = seed, standardize
        self.trainable = (trainable,) if isinstance(trainable, str) else trainable
        self.engine: Engine = Local() if engine is None else engine
        self.device, self.dtype, self.verbose = check_device(device), dtype, verbose
        self._learned: Learned | None = None
        self._data: TrainingData | None = None

    # --- training -------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        validation: Any = None,
        checkpoint_dir: str | Path | None = None,
        stream: bool | None = None,
    ) -> Self:
        """Steps 1 to 3: the posteriors of all pairs, from arrays, tensors, a torch Dataset or DataLoader.

        A Dataset is read once, into memory; with `stream=True` its items are fetched anew in every epoch, so that
        random augmentation stays random. A DataLoader is streamed unless `stream=False`.
        With `checkpoint_dir`, the same call after a crash goes on where it stopped.
        """
        todo = tasks(self.priors, self.likelihoods, seed=self.seed, trainable=self.trainable)  # steps 1 and 2
        data = self._prepare(X, y, sample_weight, validation, standardize=self.standardize, stream=stream)
        return self._train(todo, data, checkpoint_dir, self.method)  # step 3

    def update(self, X: Any, y: Any = None, *, checkpoint_dir: str | Path | None = None) -> Self:
        """Learn from more data: every posterior becomes the prior of its pair (variational continual learning)."""
        learned = self._fitted()
        data = self._in_units(self._prepare(X, y, None, None, standardize=False))
        todo = tasks(self.priors, self.likelihoods, seed=self.seed, trainable=self.trainable)
        todo = [
            continued(todo[cohort.members[0].s], cohort, posterior) for cohort, posterior in learned.parts
        ]
        return self._train(todo, data, checkpoint_dir, self.method.continuing())

    def diagnostics(self, X: Any = None, y: Any = None) -> Diagnostics:
        """One row a member: NLL, KL / N, share of parameters left at the prior, distances between members.

        Warns with advice when members have collapsed onto each other or onto their priors. On the training data; a
        model that was loaded has none, so give `X` and `y`.
        """
        if X is None and self._data is None:
            raise ValueError("a loaded model does not hold its training data; call diagnostics(X, y)")
        data = self._data if X is None else self._in_units(self._prepare(X, y, None, None, standardize=False))
        assert data is not None
        return diagnose(self._fitted().parts, data)

    def drop(self, members: Sequence[Member | tuple[int, int]]) -> Self:
        """Leave out members, given as (k, s); `diagnostics().drop(margin)` says which are worse than the best."""
        out = {(m.k, m.s) if isinstance(m, Member) else tuple(m) for m in members}
        learned = self._fitted()
        known = {(m.k, m.s) for m in learned.members}
        if out - known or out >= known:
            raise ValueError(f"members is {sorted(out)}; the model has {sorted(known)}, and one must stay")
        parts = [_without(*part, out) for part in learned.parts]
        self._learned = replace(learned, parts=tuple(part for part in parts if part is not None))
        return self

    # --- inference ------------------------------------------------------------------------------------------

    def predict(
        self,
        X: Any,
        samples: int | Literal["auto"] = DRAWS,
        *,
        predictive: Form = "mixture",
        tolerance: float = 0.01,
        max_samples: int = 1280,
        max_memory: int = MAX_MEMORY,
    ) -> CredalSet:
        """Step 4: the predictive credal set of every input, with extremes in the order (k, s) -> k * S + s.

        Classes: probabilities averaged over draws. One real output: the mixture of the draws' Normals, or with
        `predictive="normal"` the Normal of the same moments, as in the paper. Several outputs: diagonal Normals.
        `samples="auto"` draws for each input until its `noise` is below `tolerance` (nats).
        `.members` names the pairs; `.noise` is the epistemic uncertainty that Monte Carlo noise alone would show.
        """
        found = self._predictive(X, samples, predictive, tolerance, max_samples, max_memory)
        wants_numpy = not isinstance(X, Tensor)
        device = self.device if wants_numpy else X.device

        def out(t: Tensor) -> Any:
            return t.numpy() if wants_numpy else t.to(device)

        credal = found.credal_set(predictive, out)
        credal.members = self._fitted().members
        credal._noise = lambda: out(found.noise(predictive))
        return credal

    def predict_samples(self, X: Any, n: int = 100, *, seed: int = 0) -> Array:
        """Outcomes drawn as in the paper's appendix "post_pred_app": a parameter, then y. (rows, m, n, ...)."""
        drawn = simulate(self._fitted(), self._inputs(X), n, seed)
        return drawn if isinstance(X, Tensor) else drawn.numpy()

    def acquire(self, X_pool: Any, n: int, samples: int | Literal["auto"] = DRAWS) -> Array:
        """Active learning: indices of the `n` inputs of the pool with the highest epistemic uncertainty."""
        epistemic = np.asarray(self.predict(X_pool, samples).uncertainty().epistemic)
        if not 0 < n <= len(epistemic):
            raise ValueError(f"n is {n}; the pool has {len(epistemic)} inputs")
        return np.argsort(-epistemic, kind="stable")[:n]

    def calibrate(self, X_cal: Any, y_cal: Any, alpha: float = 0.05, samples: int = DRAWS) -> Calibration:
        """Conformal correction of the region, from data that was not used for training."""
        return calibrate(self.predict(X_cal, samples), y_cal, alpha)

    def save(self, path: str | Path) -> None:
        """Write the model as a folder; `cbdl.load` reads it back."""
        save(self, path)

    def __getstate__(self) -> dict[str, Any]:
        # a copy for another process or a pickle does not carry the training data, as a saved model does not
        return {**self.__dict__, "_data": None}

    # --- inside ---------------------------------------------------------------------------------------------

    def _prepare(
        self,
        X: Any,
        y: Any,
        weights: Any,
        validation: Any,
        *,
        standardize: bool,
        stream: bool | None = None,
    ) -> TrainingData:
        return prepare(
            X,
            y,
            space=self.likelihoods[0].space,
            standardize=standardize,
            weights=weights,
            validation=validation,
            stream=stream,
            device=self.device,
            dtype=self.dtype,
        )

    def _in_units(self, data: TrainingData) -> TrainingData:
        """Data that is not standardised, in the units that the model was trained in."""
        return data.in_units(self._fitted().inputs, self._fitted().targets)

    def _train(
        self, todo: Sequence[Task], data: TrainingData, checkpoint_dir: str | Path | None, method: Method
    ) -> Self:
        run = Run(seed=self.seed, verbose=self.verbose)
        parts = self.engine.train(todo, data, method, run, checkpoint_dir=checkpoint_dir)
        self._data = data
        self._learned = Learned(
            tuple(parts),
            data.inputs,
            data.targets,
            tuple(data.held.x.shape[1:]),
            self.seed,
            data.size,
            not data.held.x.is_floating_point(),
        )
        return self

    def _fitted(self) -> Learned:
        if self._learned is None:
            raise RuntimeError("this model has learned nothing yet; call fit(X, y) first")
        return self._learned

    def _inputs(self, X: Any) -> Tensor:
        learned = self._fitted()
        x = as_input(X, self.dtype).to(self.device)
        if tuple(x.shape[1:]) != learned.row:
            raise ValueError(
                f"X has rows of shape {tuple(x.shape[1:])}; the model was trained on {learned.row}"
            )
        if not len(x):
            raise ValueError("X has 0 rows; give at least one input")
        return learned.inputs(x)

    def _predictive(
        self, X: Any, samples: int | str, form: Form, tolerance: float, max_samples: int, max_memory: int
    ) -> Predictive:
        learned, x = self._fitted(), self._inputs(X)
        if samples == "auto":
            return predictive_auto(learned, x, form, tolerance, max_samples, max_memory)
        if isinstance(samples, str) or int(samples) != samples or samples < 1:
            raise ValueError(f'samples is {samples!r}; give a whole number of at least 1, or "auto"')
        return predictive(learned, x, int(samples), max_memory)


def _without(
    cohort: Cohort, posterior: Posterior, out: set[tuple[int, ...]]
) -> tuple[Cohort, Posterior] | None:
    """The cohort and its posterior without the members `out`; None if nobody is left."""
    rows = [i for i, m in enumerate(cohort.members) if (m.k, m.s) not in out]
    if not rows:
        return None
    return cohort.only(rows), posterior.only(rows)
