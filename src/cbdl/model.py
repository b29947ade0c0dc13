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
from cbdl.bayes.arguments import check_dtype, check_flag, check_likelihoods, check_priors, check_seed
from cbdl.bayes.cohort import Member
from cbdl.bayes.data import Data, TrainingData
from cbdl.bayes.devices import check_device
from cbdl.bayes.diagnostics import Diagnostics, diagnose
from cbdl.bayes.learned import MEMBERS, Chains, Learned, check_chains
from cbdl.bayes.likelihoods import Likelihood
from cbdl.bayes.methods import MeanField, Method
from cbdl.bayes.methods.protocol import check_method_argument
from cbdl.bayes.named import by_number
from cbdl.bayes.plausible import Plausibility, check_cut
from cbdl.bayes.predictive import averages, simulate
from cbdl.bayes.priors import PriorLike
from cbdl.bayes.tails import Tail
from cbdl.bayes.train import Run
from cbdl.credal import Array, CredalSet
from cbdl.engines import Auto, Engine, Task, check_engine, tasks
from cbdl.evaluate.conformal import Calibration, Conformity, calibrate
from cbdl.ground.labels import check_labels
from cbdl.ground.shown import html_table
from cbdl.prediction import DRAWS, Form, check_form, predict
from cbdl.steps.border import Border
from cbdl.steps.fitting import Fitted, Fitting, continued, verdict
from cbdl.steps.left_out import FEW, FOLDS, How, LeftOut, by_weights, check_how, levels
from cbdl.steps.missing import MOST, Choice, Encoder, completions, hull, input_quantiles


class CBDL:
    """K priors and S likelihoods in; K x S Bayesian networks trained; every prediction is a credal set.

    Step 1: `priors`, the extreme elements of the prior credal set.
    Step 2: `likelihoods`, network and noise model, the extreme elements of the likelihood credal set.
    Step 3: `fit` approximates the posterior of every pair by `method`, all priors of a likelihood at once.
    Step 4: `predict` gives the predictive distributions of all pairs, the extremes of a credal set.
    Step 5: `predict(X).uncertainty()`. Step 6: `predict(X).region(alpha)`, or `predict(X).decide("maximin")`.

    `plausible` leaves out members that the data refute (`CBDL.plausible`): 0 keeps every one, as the paper does, 1 the
    likeliest only. With `chains="extremes"` every chain of a method that has some (`MCLMC`, `HMC`) is an extreme of the
    predictions, so that what chains that do not mix leave open is part of the set. With `sharpen=True` rows that are
    left out by folds decide how sure every member may be of classes (`sharpness`), and how far off one real outcome
    (`tails`). `labels` are the names of the
    classes in the order of the networks' outputs; None: if targets are words, these in alphabetical order.
    `standardize=False` uses inputs and targets as they are, so that priors mean what they say.

    - `seed`: of everything that is random; with it fixed the result is, on a machine
    - `trainable`: patterns of the names of parameters that are learned; None: all of them, others stay as the
      network brings them
    - `engine`: where members are trained (`cbdl.engines`); None: here, or for long sampling in a process per core
    - `device`: where networks are evaluated: "cpu", "cuda", "mps"
    - `dtype`: the precision of the networks
    - `verbose`: whether training shows its progress

    >>> import numpy as np
    >>> import cbdl
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> y = X[:, 0] ** 2
    >>> model = cbdl.CBDL(
    ...     priors=[cbdl.priors.Normal(0, 1), cbdl.priors.Normal(0, 3)],
    ...     likelihoods=[cbdl.likelihoods.Normal(cbdl.nets.mlp(1, 1, hidden=(8,)), scale=0.1)],
    ...     method=cbdl.MeanField(epochs=20), verbose=False,
    ... ).fit(X, y)
    >>> model
    CBDL(2 priors x 1 likelihood, MeanField, trained on 40 rows)
    >>> prediction = model.predict(X[:3])
    >>> prediction.region(0.05).measure.shape, prediction.decomposition().doubt.shape         # the latter by member
    ((3,), (3, 2))
    >>> model.predict_samples(X[:3], 10).shape, model.predict_missing([[np.nan]]).batch_shape
    ((3, 2, 10), (1,))
    >>> len(model.diagnostics()), model.left_out().score.shape, model.acquire(X, 5).shape
    (2, torch.Size([40, 2]), (5,))
    >>> model.calibrate(X, y, alpha=0.1).region(prediction).measure.shape
    (3,)
    >>> model.conformity().region(prediction, 0.1).measure.shape
    (3,)
    >>> model = model.plausible(0.0).update(X, y).drop([(0, 0)])        # refuted members go, more data comes
    >>> import tempfile
    >>> model.save(tempfile.mkdtemp() + "/model")
    """

    def __init__(
        self,
        priors: Sequence[PriorLike],
        likelihoods: Sequence[Likelihood],
        method: Method | None = None,
        *,
        plausible: float = 0.0,
        chains: Chains = "averaged",
        sharpen: bool = False,
        labels: Sequence[str] | None = None,
        seed: int = 0,
        standardize: bool = True,
        trainable: str | Sequence[str] | None = None,
        engine: Engine | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        verbose: bool = True,
    ) -> None:
        self.priors, self.likelihoods = check_priors(priors), check_likelihoods(likelihoods)
        self.method: Method = MeanField() if method is None else method
        check_method_argument(self.method)
        check_cut(plausible)
        check_chains(chains)
        self._cut, self.chains, self.sharpen = plausible, chains, sharpen
        self.labels = None if labels is None else check_labels(labels)
        self._words = self.labels
        self.seed, self.standardize = check_seed(seed), check_flag(standardize, "standardize")
        self.trainable = (
            (trainable,) if isinstance(trainable, str) else None if trainable is None else tuple(trainable)
        )
        self.engine: Engine = Auto() if engine is None else check_engine(engine)
        self.device, self.dtype, self.verbose = check_device(device), check_dtype(dtype), verbose
        self._learned: Learned | None = None
        self._data: TrainingData | None = None
        self._left_out: LeftOut | None = None
        self._plausibility: Plausibility | None = None
        self._quantiles: Tensor | None = None
        self.encoder: Encoder | None = None
        self.meaning: Mapping[
            str, Any
        ] = {}  # what the folder of a loaded model says beside, until it changes

    def __repr__(self) -> str:
        def many(count: int, what: str) -> str:
            return f"{count} {what}{'' if count == 1 else 's'}"

        pairs = f"{many(len(self.priors), 'prior')} x {many(len(self.likelihoods), 'likelihood')}"
        if self._learned is None:
            return f"CBDL({pairs}, {type(self.method).__name__}, not trained)"
        left = len(self._learned.members)
        kept = "" if left == len(self.priors) * len(self.likelihoods) else f", {many(left, 'member')} kept"
        return f"CBDL({pairs}{kept}, {type(self.method).__name__}, trained on {self._learned.size:g} rows)"

    def _repr_html_(self) -> str:
        if self._learned is None:
            rows = [(f"prior {k}", repr(p)) for k, p in enumerate(self.priors)]
            return html_table(repr(self), ["", "settings"], rows, [repr(self.method)])
        return html_table(repr(self), MEMBERS, self._learned.described(), [repr(self.method)])

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
        folds: int | None = None,
        least: int = 1,
        extra: int = 1,
    ) -> Self:
        """Steps 1 to 3: the posteriors of all pairs, from arrays, tensors, a torch Dataset or DataLoader.

        A Dataset is read once, into memory; with `stream=True` its items are fetched anew in every epoch, so that
        random augmentation stays random. A DataLoader is streamed unless `stream=False`.
        With `checkpoint_dir`, the same call after a crash goes on where it stopped. `folds`: first train every pair
        without each of so many folds of the rows, for `left_out`; None: five if `plausible` needs them and the rows are
        few. Pairs that are then refuted are not trained any further; but `least` members stay. Those that stay are
        given the chains of the others, so that they have up to `extra` times as many, with about as many draws in all.

        - `X`: inputs (rows, ...): an array, a tensor, a Dataset or a DataLoader of pairs
        - `y`: outcomes (rows, ...); words are classes by name. None if `X` holds them
        - `sample_weight`: (rows,): how often each row counts; None: once
        - `validation`: a pair (X, y) of rows that are only scored: members then stop, and are kept, at their
          best epoch
        """
        todo = self._tasks()  # steps 1 and 2
        if self.likelihoods[0].space == "classes":
            X, y, self.labels = by_number(X, y, self._words, stream)
        data = self._border.training(
            X, y, weights=sample_weight, validation=validation, standardize=self.standardize, stream=stream
        )
        if folds is None:
            folds = FOLDS if (self._cut > 0 or self.sharpen) and data.rows <= FEW else 0
        self._quantiles = input_quantiles(data)
        fitting = Fitting(self.engine, self.method, self._run, checkpoint_dir, self.sharpen)
        if folds:
            return self._take(fitting.by_folds(todo, data, folds, self._cut, least, extra))
        self._take(fitting.whole(todo, data))  # step 3
        return self if self._cut == 0 else self.plausible(self._cut, least)

    def update(self, X: Any, y: Any = None, *, checkpoint_dir: str | Path | None = None) -> Self:
        """Learn from more data: every posterior becomes the prior of its pair (variational continual learning).

        - `X`: new inputs, as in `fit`
        - `y`: their outcomes
        - `checkpoint_dir`: as in `fit`
        """
        learned = self.learned
        data = self._border.more(self._array(X), y, learned)
        whole = self._tasks()
        todo = [continued(whole[s], part) for s, part in learned.parts.items()]
        fitting = Fitting(self.engine, self.method.continuing(), self._run, checkpoint_dir)
        self._take(fitting.whole(todo, data)).meaning = self._of_table
        return self

    def diagnostics(self, X: Any = None, y: Any = None) -> Diagnostics:
        """One row per member: NLL, KL / N, share of parameters left at the prior, distances between members.

        Warns with advice when members have collapsed onto each other or, before any update, onto their priors. On the
        training data; a model that was loaded has none, so give `X` and `y`.
        """
        learned, data = self.learned, self._data
        if X is not None:
            data = self._border.more(self._array(X), y, learned)
        if data is None:
            raise ValueError("a loaded model does not hold its training data; call diagnostics(X, y)")
        parts = learned.parts.values()
        continued = any(part.continued for part in parts)
        report = diagnose([(part.cohort, part.posterior) for part in parts], data, continued=continued)
        return replace(report, plausibility=self._plausibility)

    def drop(self, members: Sequence[Member | tuple[int, int]]) -> Self:
        """Leave out members, given as (k, s); `diagnostics().drop(margin)` says which are worse than the best.

        - `members`: whom to leave out: `Member`, or (k, s)
        """
        out = {(m.k, m.s) if isinstance(m, Member) else (m[0], m[1]) for m in members}
        places = [i for i, m in enumerate(self.learned.members) if (m.k, m.s) not in out]
        if out:
            self._learned, self.meaning = self.learned.without(out), self._of_table
        if self._left_out is not None:
            self._left_out = self._left_out.only(places)
        return self

    def left_out(self, how: How = "auto") -> LeftOut:
        """What the members say of training rows that they have not seen: scores, and predictive distributions.

        "weights" weights the draws so that they forget a row; "folds" asks members that were trained without it
        (`fit(..., folds=5)`); "auto" takes the folds if there are any, else weights. Made once, then remembered.

        - `how`: "auto", "folds" or "weights"
        """
        check_how(how)
        known, data = self._left_out, self._data
        if known is not None and how in ("auto", known.way):
            return known
        if not isinstance(data, Data):
            raise ValueError(
                "rows can be left out only right after fit, and not of a stream: fit with arrays"
            )
        if how == "folds":
            raise ValueError("no folds were trained; fit with folds=5")
        self._left_out = by_weights(self.learned, data)
        return self._left_out

    def plausible(self, alpha: float, least: int = 1) -> Self:
        """Leave out the members that the data refute, those whose plausibility is below `alpha`.

        A member's plausibility is the relative likelihood of "it predicts rows that it has not seen as well as the best
        member does" (`cbdl.bayes.plausible`). `plausibility` says who fell and why.

        - `alpha`: a share from 0, every member stays, to 1, only the likeliest
        - `least`: so many stay even if the data refute them: a set of one knows no ignorance
        """
        judgement = verdict(
            self.left_out(), self.learned.members, self.priors, alpha, least, verbose=self.verbose
        )
        self._plausibility = judgement
        return self.drop(judgement.dropped) if judgement.dropped else self

    @property
    def plausibility(self) -> Plausibility | None:
        """Which members stayed, which fell and why; None before `plausible`."""
        return self._plausibility

    @property
    def sharpness(self) -> Mapping[tuple[int, int], float]:
        """Of members (k, s): the power to which their class probabilities are raised, if `sharpen` was asked for."""
        return self.learned.sharpness

    @property
    def tails(self) -> Mapping[tuple[int, int], Tail]:
        """Of members (k, s): the share and width of the wide Normal in their mixtures, if `sharpen` was asked for."""
        return self.learned.tails

    # --- inference ------------------------------------------------------------------------------------------

    def predict(
        self,
        X: Any,
        samples: int | Literal["auto"] = DRAWS,
        *,
        predictive: Form = "mixture",
        chains: Chains | None = None,
        tolerance: float = 0.01,
        max_samples: int = 1280,
        max_memory: int | None = None,
        floor: bool = True,
    ) -> CredalSet:
        """Step 4: the predictive credal set of every input, with extremes in the order (k, s) -> k * S + s.

        Classes: probabilities averaged over draws. One real output: the mixture of the draws' Normals, or with
        `predictive="normal"` the Normal of the same moments, as in the paper. Several outputs: diagonal Normals.
        `samples="auto"` draws for each input until its `floor` is below `tolerance` (nats).
        `chains`: None is the model's own choice; where chains are extremes, `samples` counts the draws of each.
        `.members` names the pairs; `.floor` is the epistemic uncertainty that Monte Carlo noise alone would show. With
        `floor=False` that of classes and of several outputs, which takes a third of the time, is not computed and nan.

        - `X`: inputs (rows, ...), a Dataset or a DataLoader
        - `max_samples`: the most draws that "auto" takes
        - `max_memory`: bytes of working memory; None: the limit of `cbdl.memory`
        """
        x, learned = self._inputs(X), self._extremes(self.chains if chains is None else chains)
        numbers = predict(learned, x, samples, predictive, tolerance, max_samples, max_memory, floor)
        return self._border.named(
            numbers.credal_set(learned.members, X.device if isinstance(X, Tensor) else None)
        )

    def predict_missing(
        self,
        X: Any,
        samples: int | Literal["auto"] = DRAWS,
        *,
        choices: Sequence[Choice] | None = None,
        most: int = MOST,
        predictive: Form = "mixture",
        chains: Chains | None = None,
        max_memory: int | None = None,
        floor: bool = True,
    ) -> CredalSet:
        """Step 4 where X (rows, features) holds nan: the hull over all that the missing inputs could be.

        Conservative inference (`cbdl.missing`). A number could be one of five quantiles of its training column;
        `choices` says otherwise, and which features are missing together. Of more than `most` completions of a row a
        balanced sample is answered: `.origin.completions` and `.origin.possible` say how many of how many.

        - `samples`: draws, as in `predict`
        - `predictive`, `chains`, `max_memory`, `floor`: as in `predict`
        """
        learned = self._extremes(self.chains if chains is None else chains)
        own = completions(X, learned, self.encoder, choices, self._quantiles, most)
        x = self._inputs(own.X)
        numbers = predict(learned, x, samples, predictive, max_memory=max_memory, floor=floor)
        return self._border.named(
            hull(numbers, learned.members, own, X.device if isinstance(X, Tensor) else None)
        )

    def predict_samples(self, X: Any, n: int = 100, *, seed: int = 0) -> Array:
        """Outcomes drawn as in the paper's appendix "post_pred_app": a parameter, then y. (rows, m, n, ...).

        - `X`: inputs (rows, ...), as in `fit`
        - `n`: outcomes for each row and member
        - `seed`: of the random numbers; the same seed gives the same answer
        """
        drawn = simulate(self.learned, self._inputs(X), n, seed)
        return drawn if isinstance(X, Tensor) else drawn.numpy()

    def predict_draws(self, X: Any, samples: int = DRAWS) -> Array:
        """(rows, m, samples, J): the class probabilities of every draw of every member; `predict` averages them, and
        sharpens the averages if it was told to.

        - `X`: inputs (rows, ...), as in `fit`
        - `samples`: draws of the parameters behind a prediction

        >>> import cbdl
        >>> likelihoods = [cbdl.likelihoods.Categorical(cbdl.nets.mlp(1, 2))]
        >>> model = cbdl.CBDL([cbdl.priors.Normal(0, 1)], likelihoods, cbdl.MeanField(epochs=1), verbose=False)
        >>> model.fit([[0.0], [1.0]], [0, 1]).predict_draws([[0.5]], 10).shape
        (1, 1, 10, 2)
        """
        if self.learned.space != "classes":
            raise ValueError(
                f"predict_draws is for classes; this model predicts {self.learned.space} outcomes"
            )
        if int(samples) != samples or samples < 1:
            raise ValueError(f"samples is {samples!r}; give a whole number of at least 1")
        probs = averages(self.learned, self._inputs(X), torch.eye(int(samples), dtype=torch.float64)).probs
        return probs.to(X.device) if isinstance(X, Tensor) else probs.numpy()

    def acquire(self, X_pool: Any, n: int, samples: int | Literal["auto"] = DRAWS) -> Array:
        """Active learning: indices of the `n` inputs of the pool with the highest epistemic uncertainty.

        - `X_pool`: inputs whose outcomes could be asked for
        - `samples`: draws, as in `predict`
        """
        epistemic = np.asarray(self.predict(X_pool, samples).uncertainty().epistemic)
        if not 0 < n <= len(epistemic):
            raise ValueError(f"n is {n}; the pool has {len(epistemic)} inputs")
        return np.argsort(-epistemic, kind="stable")[:n]

    def calibrate(self, X_cal: Any, y_cal: Any, alpha: float = 0.05, samples: int = DRAWS) -> Calibration:
        """Conformal correction of the region, from data that was not used for training.

        - `X_cal`: inputs that were not used for training
        - `y_cal`: their outcomes
        - `alpha`: a share of 1 - alpha of new outcomes is to be covered
        - `samples`: draws, as in `predict`
        """
        return calibrate(self.predict(X_cal, samples), y_cal, alpha)

    def conformity(self, how: How = "auto", *, predictive: Form = "mixture") -> Conformity:
        """The levels of the credal region that training outcomes needed, each predicted as if it had not been seen:
        `conformity().region(prediction, alpha)` covers a share of 1 - alpha of new outcomes. See `left_out`.

        `predictive` is that of the predictions whose regions it will set.

        - `how`: how rows are left out, as in `left_out`
        """
        check_form(predictive)
        left, data = self.left_out(how), self._data
        assert data is not None
        return levels(left, self.learned, data.held, predictive)

    def save(self, path: str | Path, *, extra: Mapping[str, Any] | None = None) -> None:
        """Write the model as a folder, with `extra` (JSON) in its manifest; `cbdl.load` reads it back.

        - `path`: the folder; it appears whole, and replaces another model when it does
        - `extra`: None: what the folder held that the model was loaded from; of other members or after more data
          what it said of the table alone
        """
        settings = store.Saved(
            self.priors,
            self.likelihoods,
            self.method,
            self._cut,
            self.chains,
            self.sharpen,
            self.seed,
            self.standardize,
            self.trainable,
            self.dtype,
            self.learned,
            self.meaning if extra is None else extra,
            self._quantiles,
            self.labels,
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
        return {**self.__dict__, "_data": None, "_left_out": None}

    # --- inside ---------------------------------------------------------------------------------------------

    @property
    def _border(self) -> Border:
        return Border(self.likelihoods[0].space, self.labels, self.device, self.dtype)

    def _take(self, fitted: Fitted) -> Self:
        self._learned, self._data = fitted.learned, fitted.data
        self._left_out, self._plausibility = fitted.left_out, fitted.plausibility
        self.meaning = {}
        return self

    @property
    def _of_table(self) -> Mapping[str, Any]:
        """What a model still means whose networks are others than those that were loaded."""
        return {} if self.encoder is None else self.encoder.meaning

    @property
    def _run(self) -> Run:
        return Run(seed=self.seed, verbose=self.verbose)

    def _tasks(self) -> list[Task]:
        return tasks(self.priors, self.likelihoods, seed=self.seed, trainable=self.trainable)

    def _extremes(self, chains: Chains) -> Learned:
        """What predicts: pairs, or their chains."""
        check_chains(chains)
        return self.learned if chains == "averaged" else self.learned.by_chain()

    def _inputs(self, X: Any) -> Tensor:
        learned = self.learned
        return self._border.inputs(self._array(X), learned)

    def _array(self, X: Any) -> Any:
        """Inputs as numbers where they are a data frame that the model knows how to read."""
        return X if self.encoder is None else self.encoder.array(X)


def load(
    path: str | Path,
    nets: Sequence[Callable[[], nn.Module]] | None = None,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
) -> CBDL:
    """The model in the folder `path`.

    Networks from `cbdl.nets` are rebuilt by name. A network of the user's own is not in the folder: give its
    factories as `nets`, one per likelihood, in order. `dtype`: the precision of the networks, if not that of the
    training.
    """
    saved = store.read(path, nets, check_device(device), dtype)
    model = CBDL(
        saved.priors,
        saved.likelihoods,
        saved.method,
        plausible=saved.plausible,
        chains=saved.chains,
        sharpen=saved.sharpen,
        seed=saved.seed,
        standardize=saved.standardize,
        trainable=saved.trainable,
        labels=saved.labels,
        device=device,
        dtype=saved.dtype,
    )
    model._learned, model._quantiles = saved.learned, saved.quantiles
    return model
