"""Algorithm 1 of the paper, steps 1 to 6, in a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from cbdl import store
from cbdl.bayes.cohort import Member
from cbdl.bayes.data import TrainingData, as_input, prepare
from cbdl.bayes.devices import check_device
from cbdl.bayes.diagnostics import Diagnostics, diagnose
from cbdl.bayes.learned import Learned, Part
from cbdl.bayes.likelihoods import Likelihood, agree
from cbdl.bayes.methods import MeanField, Method
from cbdl.bayes.methods.protocol import check_method_argument
from cbdl.bayes.predictive import averages, simulate
from cbdl.bayes.priors import PriorLike
from cbdl.bayes.train import Run
from cbdl.credal import Array, CredalSet
from cbdl.engines import Engine, Local, Task, tasks
from cbdl.evaluate.conformal import Calibration, calibrate
from cbdl.prediction import DRAWS, Form, predict


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
    >>> model
    CBDL(2 priors x 1 likelihood, MeanField, trained on 40 rows)
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
        self.trainable = (
            (trainable,) if isinstance(trainable, str) else None if trainable is None else tuple(trainable)
        )
        self.engine: Engine = Local() if engine is None else engine
        self.device, self.dtype, self.verbose = check_device(device), dtype, verbose
        self._learned: Learned | None = None
        self._data: TrainingData | None = None

    def __repr__(self) -> str:
        def many(count: int, what: str) -> str:
            return f"{count} {what}{'' if count == 1 else 's'}"

        pairs = f"{many(len(self.priors), 'prior')} x {many(len(self.likelihoods), 'likelihood')}"
        if self._learned is None:
            return f"CBDL({pairs}, {type(self.method).__name__}, not trained)"
        left = len(self._learned.members)
        kept = "" if left == len(self.priors) * len(self.likelihoods) else f", {many(left, 'member')} kept"
        return f"CBDL({pairs}{kept}, {type(self.method).__name__}, trained on {self._learned.size:g} rows)"

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
        learned = self.learned
        data = self._more(X, y)
        whole = tasks(self.priors, self.likelihoods, seed=self.seed, trainable=self.trainable)
        todo = [_continued(whole[s], part) for s, part in learned.parts.items()]
        return self._train(todo, data, checkpoint_dir, self.method.continuing())

    def diagnostics(self, X: Any = None, y: Any = None) -> Diagnostics:
        """One row per member: NLL, KL / N, share of parameters left at the prior, distances between members.

        Warns with advice when members have collapsed onto each other or onto their priors. On the training data; a
        model that was loaded has none, so give `X` and `y`.
        """
        learned, data = self.learned, self._data
        if X is not None:
            data = self._more(X, y)
        if data is None:
            raise ValueError("a loaded model does not hold its training data; call diagnostics(X, y)")
        return diagnose([(part.cohort, part.posterior) for part in learned.parts.values()], data)

    def drop(self, members: Sequence[Member | tuple[int, int]]) -> Self:
        """Leave out members, given as (k, s); `diagnostics().drop(margin)` says which are worse than the best."""
        out = {(m.k, m.s) if isinstance(m, Member) else (m[0], m[1]) for m in members}
        self._learned = self.learned.without(out)
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
        max_memory: int | None = None,
    ) -> CredalSet:
        """Step 4: the predictive credal set of every input, with extremes in the order (k, s) -> k * S + s.

        Classes: probabilities averaged over draws. One real output: the mixture of the draws' Normals, or with
        `predictive="normal"` the Normal of the same moments, as in the paper. Several outputs: diagonal Normals.
        `samples="auto"` draws for each input until its `floor` is below `tolerance` (nats).
        `.members` names the pairs; `.floor` is the epistemic uncertainty that Monte Carlo noise alone would show.
        """
        x, learned = self._inputs(X), self.learned
        numbers = predict(learned, x, samples, predictive, tolerance, max_samples, max_memory)
        return numbers.credal_set(learned.members, X.device if isinstance(X, Tensor) else None)

    def predict_samples(self, X: Any, n: int = 100, *, seed: int = 0) -> Array:
        """Outcomes drawn as in the paper's appendix "post_pred_app": a parameter, then y. (rows, m, n, ...)."""
        drawn = simulate(self.learned, self._inputs(X), n, seed)
        return drawn if isinstance(X, Tensor) else drawn.numpy()

    def predict_draws(self, X: Any, samples: int = DRAWS) -> Array:
        """(rows, m, samples, J): the class probabilities of every draw of every member; `predict` averages them."""
        if self.learned.space != "classes":
            raise ValueError(
                f"predict_draws is for classes; this model predicts {self.learned.space} outcomes"
            )
        if int(samples) != samples or samples < 1:
            raise ValueError(f"samples is {samples!r}; give a whole number of at least 1")
        probs = averages(self.learned, self._inputs(X), torch.eye(int(samples), dtype=torch.float64))
        return probs.to(X.device) if isinstance(X, Tensor) else probs.numpy()

    def acquire(self, X_pool: Any, n: int, samples: int | Literal["auto"] = DRAWS) -> Array:
        """Active learning: indices of the `n` inputs of the pool with the highest epistemic uncertainty."""
        epistemic = np.asarray(self.predict(X_pool, samples).uncertainty().epistemic)
        if not 0 < n <= len(epistemic):
            raise ValueError(f"n is {n}; the pool has {len(epistemic)} inputs")
        return np.argsort(-epistemic, kind="stable")[:n]

    def calibrate(self, X_cal: Any, y_cal: Any, alpha: float = 0.05, samples: int = DRAWS) -> Calibration:
        """Conformal correction of the region, from data that was not used for training."""
        return calibrate(self.predict(X_cal, samples), y_cal, alpha)

    def save(self, path: str | Path, *, extra: Mapping[str, Any] | None = None) -> None:
        """Write the model as a folder, with `extra` (JSON) in its manifest; `cbdl.load` reads it back."""
        settings = store.Saved(
            self.priors,
            self.likelihoods,
            self.method,
            self.seed,
            self.standardize,
            self.trainable,
            self.dtype,
            self.learned,
            extra or {},
        )
        store.write(path, settings)

    @property
    def learned(self) -> Learned:
        """What Step 3 left; a RuntimeError before `fit`."""
        if self._learned is None:
            raise RuntimeError("this model has learned nothing yet; call fit(X, y) first")
        return self._learned

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

    def _more(self, X: Any, y: Any) -> TrainingData:
        """Further data, in the units that the model was trained in."""
        data = self._prepare(X, y, None, None, standardize=False)
        return data.in_units(self.learned.inputs, self.learned.targets)

    def _train(
        self, todo: Sequence[Task], data: TrainingData, checkpoint_dir: str | Path | None, method: Method
    ) -> Self:
        run = Run(seed=self.seed, verbose=self.verbose)
        trained = self.engine.train(todo, data, method, run, checkpoint_dir=checkpoint_dir)
        parts = [Part(task.priors, *pair) for task, pair in zip(todo, trained, strict=True)]
        self._data, self._learned = data, Learned.of(parts, data, self.seed)
        return self

    def _inputs(self, X: Any) -> Tensor:
        learned = self.learned
        x = as_input(X, self.dtype).to(self.device)
        if tuple(x.shape[1:]) != learned.row:
            raise ValueError(
                f"X has rows of shape {tuple(x.shape[1:])}; the model was trained on {learned.row}"
            )
        if not len(x):
            raise ValueError("X has 0 rows; give at least one input")
        return learned.inputs(x)


def load(
    path: str | Path,
    nets: Sequence[Callable[[], nn.Module]] | None = None,
    *,
    device: torch.device | str = "cpu",
) -> CBDL:
    """The model in the folder `path`.

    Networks from `cbdl.nets` are rebuilt by name. A network of the user's own is not in the folder: give its
    factories as `nets`, one per likelihood, in order.
    """
    saved = store.read(path, nets, device)
    model = CBDL(
        saved.priors,
        saved.likelihoods,
        saved.method,
        seed=saved.seed,
        standardize=saved.standardize,
        trainable=saved.trainable,
        device=device,
        dtype=saved.dtype,
    )
    model._learned = saved.learned
    return model


def _continued(task: Task, part: Part) -> Task:
    """`task` with the prior of every member of `part` replaced by its posterior."""
    posteriors = part.posterior.priors(part.cohort)
    if posteriors is None:
        raise ValueError(
            f"update needs a posterior that is a Normal for every parameter, as MeanField gives; this model has a "
            f"{type(part.posterior).__name__}: fit it again on all data"
        )
    priors = list(task.priors)
    for member, posterior in zip(part.cohort.members, posteriors, strict=True):
        priors[member.k] = posterior
    return replace(task, priors=tuple(priors), members=part.cohort.members)
