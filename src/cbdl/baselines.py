"""What the paper compares with: one BNN, an ensemble of BNNs averaged (EBNN), model averaging, deep ensembles, dropout.

Section "(Predictive) Uncertainty Quantification" and appendix "other_baselines". All of them end in one distribution
per row; a credal set keeps the members apart. They are made from the members of a `cbdl.CBDL` or from its prediction,
so that everyone is compared on the same networks.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cbdl.bayes import likelihoods, priors
from cbdl.bayes.diagnostics import CollapseWarning
from cbdl.bayes.methods import Dropout, Ensemble
from cbdl.credal import (
    Array,
    ArrayLike,
    CategoricalCredalSet,
    CredalSet,
    DiagonalNormalCredalSet,
    MixtureCredalSet,
    NormalCredalSet,
)
from cbdl.model import CBDL

Definition = Literal["label", "paper"]


@dataclass(frozen=True)
class Averaged:
    """One distribution per row with the split of its uncertainty, as a baseline has it.

    prediction: a credal set with one extreme
    aleatoric, epistemic: (n,) in the unit of the baseline (nats, or a variance)
    """

    prediction: CredalSet
    aleatoric: Array
    epistemic: Array

    @property
    def total(self) -> Array:
        """(n,): aleatoric + epistemic."""
        return self.aleatoric + self.epistemic


# --- one Bayesian network ----------------------------------------------------------------------------------


def from_draws(probs: ArrayLike) -> Averaged:
    """Of class probabilities of several draws (n, draws, J): their mean; expected entropy, and mutual information.

    H(mean p) = mean H(p) + mutual information of the draw and the outcome, in nats. Paper: "other_baselines".

    - `probs`: the probabilities (n, draws, J)

    >>> one = from_draws(np.array([[[1.0, 0.0], [0.0, 1.0]]]))
    >>> float(one.aleatoric[0]), float(one.epistemic[0].round(4))
    (0.0, 0.6931)
    """
    draws = CategoricalCredalSet(probs)
    split = draws.average_uncertainty()
    return Averaged(draws.point(), split.expected_entropy, split.mutual_information)


def single_bnn(model: CBDL, X: Any, samples: int = 20, member: tuple[int, int] | None = None) -> Averaged:
    """One member (k, s) of a model of classes alone: by default that with the best validation score.

    - `model`: a trained `cbdl.CBDL`
    - `X`: inputs, as in `CBDL.predict`
    - `samples`: draws of the parameters behind a prediction

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = mc_dropout(lambda: nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 2)), Dropout(epochs=2))
    >>> model.verbose = False
    >>> alone = single_bnn(model.fit(X, X[:, 0] > 0), X)
    >>> alone.aleatoric.shape, bool((alone.epistemic >= 0).all())   # expected entropy, mutual information
    ((20,), True)
    """
    k, s = best_member(model) if member is None else member
    names = [(m.k, m.s) for m in model.learned.members]
    if (k, s) not in names:
        raise ValueError(f"member is {(k, s)}; the model has {names}")
    return from_draws(model.predict_draws(X, samples)[:, names.index((k, s))])


def best_member(model: CBDL) -> tuple[int, int]:
    """(k, s) of the member with the lowest validation NLL; without validation data, with the lowest training NLL.

    - `model`: a trained `cbdl.CBDL`

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = deep_ensemble(lambda: nn.Linear(1, 2), 3, Ensemble(epochs=2))
    >>> model.verbose = False
    >>> best_member(model.fit(X, X[:, 0] > 0)) in [(0, 0), (1, 0), (2, 0)]
    True
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        rows = [row for row in model.diagnostics().rows if not row.failed]
    if not rows:
        raise ValueError("every member of the model failed in training; there is no best one")
    best = min(rows, key=lambda r: r.train_nll if math.isnan(r.validation_nll) else r.validation_nll)
    return best.member.k, best.member.s


# --- an ensemble of Bayesian networks ----------------------------------------------------------------------


def ebnn(prediction: CredalSet, definition: Definition = "label") -> Averaged:
    """The ensemble of BNNs: R >= 2 members averaged into one distribution of mean mu_ens and variance

        sigma_ens^2 = 1/R sum_r sigma_r^2 + 1/(R - 1) sum_r (mu_r - mu_ens)^2,

    the first term aleatoric, the second epistemic. On the line and in R^d the distribution is the Normal of these
    moments, coordinate by coordinate, and its `region(alpha)` the paper's baseline for regions; in R^d both terms are
    summed over coordinates. For classes mu_r are the probabilities p_r, and

    - definition="label": sigma_r^2 = sum_k p_rk (1 - p_rk), the variance of the one-hot label, summed over classes;
    - definition="paper": sigma_r^2 = the variance of the J numbers p_r1, ..., p_rJ, as the paper's figures fit.
      It is largest for a network that is sure and 0 for one that knows nothing: that the paper's EBNN grows more
      certain on corrupted images follows from this definition alone. The second term is the mean over classes.

    - `prediction`: a credal set of at least two extremes
    - `definition`: of the variance for classes: "label" or "paper"

    >>> sure, unsure = CategoricalCredalSet([[[0.98, 0.01, 0.01]] * 2]), CategoricalCredalSet([[[0.4, 0.3, 0.3]] * 2])
    >>> [bool(ebnn(unsure, d).aleatoric > ebnn(sure, d).aleatoric) for d in ("label", "paper")]
    [True, False]
    """
    if prediction.num_extremes < 2:
        raise ValueError("an ensemble needs at least two members; the prediction has one")
    if isinstance(prediction, CategoricalCredalSet):
        return _ebnn_of_classes(prediction, definition)
    if isinstance(prediction, NormalCredalSet | MixtureCredalSet):
        return _ebnn_on_the_line(prediction)
    if isinstance(prediction, DiagonalNormalCredalSet):
        return _ebnn_in_space(prediction)
    raise ValueError(f"{type(prediction).__name__} is no prediction of classes or of real numbers")


def _ebnn_of_classes(prediction: CategoricalCredalSet, definition: str) -> Averaged:
    P = torch.as_tensor(prediction.probs)
    between = P.var(-2, correction=1)
    if definition == "label":
        aleatoric, epistemic = (P * (1 - P)).sum(-1).mean(-1), between.sum(-1)
    elif definition == "paper":
        aleatoric, epistemic = P.var(-1, correction=0).mean(-1), between.mean(-1)
    else:
        raise ValueError(f'definition is {definition!r}; give "label" or "paper"')
    return Averaged(prediction.point(), *_as(prediction.probs, aleatoric, epistemic))


def _ebnn_on_the_line(prediction: CredalSet) -> Averaged:
    mean, variance = _moments(prediction)
    aleatoric, epistemic = variance.mean(-1), mean.var(-1, correction=1)
    center, spread = mean.mean(-1, keepdim=True), (aleatoric + epistemic).sqrt().unsqueeze(-1)
    one = NormalCredalSet(*_as(prediction.loc, center, spread))
    return Averaged(one, *_as(prediction.loc, aleatoric, epistemic))


def _ebnn_in_space(prediction: DiagonalNormalCredalSet) -> Averaged:
    mean, scale = torch.as_tensor(prediction.loc), torch.as_tensor(prediction.scale)
    within, between = scale.square().mean(-2), mean.var(-2, correction=1)
    spread = (within + between).sqrt()
    one = DiagonalNormalCredalSet(*_as(prediction.loc, mean.mean(-2, keepdim=True), spread.unsqueeze(-2)))
    return Averaged(one, *_as(prediction.loc, within.sum(-1), between.sum(-1)))


def _moments(prediction: CredalSet) -> tuple[Tensor, Tensor]:
    """(..., m) twice: mean and variance of every member's predictive."""
    loc, scale = torch.as_tensor(prediction.loc), torch.as_tensor(prediction.scale)
    if isinstance(prediction, NormalCredalSet):
        return loc, scale.square()
    weights = torch.as_tensor(prediction.weights)
    mean = (weights * loc).sum(-1, keepdim=True)
    return mean.squeeze(-1), (weights * (scale.square() + (loc - mean).square())).sum(-1)


def _as(like: Array, *values: Tensor) -> tuple[Array, ...]:
    return values if isinstance(like, Tensor) else tuple(v.numpy() for v in values)


# --- model averaging ---------------------------------------------------------------------------------------


def likelihood_weights(log_likelihood: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """(m,): weights proportional to likelihoods, from the summed log likelihood of validation rows per member (m,).

    - `log_likelihood`: (m,), summed over validation rows

    >>> likelihood_weights(np.log([0.3, 0.1])).round(6)
    array([0.75, 0.25])
    """
    values = np.asarray(log_likelihood, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise ValueError(f"log_likelihood is {log_likelihood!r}; give one finite number per member")
    share = np.exp(values - values.max())
    return np.asarray(share / share.sum())


def average(prediction: CredalSet, weights: ArrayLike | None = None) -> CredalSet:
    """Bayesian model averaging: the set whose only extreme is sum_j w_j P_j; equal weights if none are given.

    `weights` (m,) are given, or from `likelihood_weights`.

    - `prediction`: a credal set

    >>> from cbdl import CategoricalCredalSet
    >>> average(CategoricalCredalSet([[0.2, 0.8], [0.6, 0.4]]), [0.5, 0.5]).probs
    array([[0.4, 0.6]])
    """
    return prediction.point(weights)


# --- networks without a posterior --------------------------------------------------------------------------


def deep_ensemble(
    net: Callable[[], nn.Module],
    members: int,
    method: Ensemble | None = None,
    *,
    scale: float = 1.0,
    seed: int = 0,
) -> CBDL:
    """A model of `members` networks for classes that differ by their initialisation alone, for `fit` and `predict`.

    With the epochs of the Bayesian model and as many members it costs as much or less. `scale` of the Normal prior is
    weight decay. Its prediction is that of `from_draws(model.predict(X).probs)`.

    - `net`: a function that makes a new network, or a module as its template
    - `method`: how it is trained; None: `Ensemble` with one start
    - `seed`: of the random numbers; the same seed gives the same answer

    >>> deep_ensemble(lambda: nn.Linear(1, 2), 5)
    CBDL(5 priors x 1 likelihood, Ensemble, not trained)
    """
    if int(members) != members or members < 2:
        raise ValueError(f"members is {members}; an ensemble needs at least 2")
    return CBDL(
        priors=[priors.Normal(0.0, scale)] * int(members),
        likelihoods=[likelihoods.Categorical(net)],
        method=Ensemble() if method is None else method,
        seed=seed,
    )


def mc_dropout(
    net: Callable[[], nn.Module], method: Dropout | None = None, *, scale: float = 1.0, seed: int = 0
) -> CBDL:
    """A model of one network for classes whose draws are dropout masks; `single_bnn(model, X)` is its prediction.

    - `net`: a function that makes a new network, or a module as its template
    - `method`: how it is trained; None: `Dropout()`
    - `scale`: of the Normal prior, weight decay
    - `seed`: of the random numbers; the same seed gives the same answer

    >>> mc_dropout(lambda: nn.Linear(1, 2))
    CBDL(1 prior x 1 likelihood, Dropout, not trained)
    """
    return CBDL(
        priors=[priors.Normal(0.0, scale)],
        likelihoods=[likelihoods.Categorical(net)],
        method=Dropout() if method is None else method,
        seed=seed,
    )
