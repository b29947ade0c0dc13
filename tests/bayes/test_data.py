"""Bad data is refused before any training, with what is wrong, where, and what to do."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from cbdl.bayes import data, likelihoods, priors
from cbdl.bayes.cohort import Cohort
from cbdl.bayes.methods.mean_field import MeanField
from cbdl.bayes.train import Run

X = np.random.default_rng(0).normal(size=(20, 3))
Y = X.sum(1)
C = (Y > 0).astype(int)


def spoiled(x: np.ndarray, at: Any, value: float) -> np.ndarray:
    y = x.copy()
    y[at] = value
    return y


@pytest.mark.parametrize(
    ("x", "y", "space", "message"),
    [
        (spoiled(X, (4, 1), np.nan), Y, "real", r"X\[4, 1\] is nan; remove the row or impute"),
        (spoiled(X, (0, 2), np.inf), Y, "real", r"X\[0, 2\] is inf"),
        (X, spoiled(Y, 7, np.nan), "real", r"y\[7\] is nan"),
        (X, spoiled(Y, 7, -np.inf), "real", r"y\[7\] is -inf"),
        (X, Y[:-1], "real", "X has 20 rows and y has 19"),
        (X[:0], Y[:0], "real", "0 rows; there is nothing to learn from"),
        (X[:, 0], Y, "real", r"use X.reshape\(-1, 1\)"),
        (X, C + 0.5, "classes", r"y\[0\] is .*class labels are the integers"),
        (X, np.array(["a"] * 20), "classes", "y holds .*not numbers"),
        (spoiled(X.astype(object), (2, 1), "b"), Y, "real", r"X\[2, 1\] is 'b', not a number"),  # type: ignore[arg-type]
        (spoiled(X.astype(object), (2, 1), None), Y, "real", r"X\[2, 1\] is nan"),  # type: ignore[arg-type]
        (np.ma.masked_equal(spoiled(X, (4, 1), 9), 9), Y, "real", r"X\[4, 1\] is nan"),
        (X, np.ma.masked_equal(C, 1), "classes", r"y\[\d+\] is nan; remove the row"),
        (sparse.csr_matrix(X), Y, "real", r"X is a csr_matrix, not numbers; give X.toarray\(\)"),
        (None, Y, "real", "X is a NoneType, not numbers"),
        ("data.csv", Y, "real", "X is a str, not numbers"),
        (spoiled(X, (3, 0), 1e300), Y, "real", r"X\[3, 0\] is too large for torch.float32"),
        (X, None, "real", "y is missing"),
        (X + 1j, Y, "real", "X holds complex"),
        ([[1.0, 2.0], [3.0]], [1.0, 2.0], "real", "X is not a rectangular array"),
    ],
)
def test_bad_arrays_are_refused(x: Any, y: Any, space: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        data.prepare(x, y, space=space)


@pytest.mark.parametrize(
    "same",
    [
        X.astype(object),
        X.astype(np.longdouble),
        X.astype(">f8"),
        np.ma.masked_greater(X, 99),
        pd.DataFrame(X).astype("Float64"),
        np.vectorize(lambda v: Decimal(float(v)))(X),
    ],
    ids=["objects", "longer", "other order", "masked", "nullable", "decimals"],
)
def test_numbers_of_every_kind_are_numbers(same: Any) -> None:
    assert torch.equal(data.prepare(same, Y, space="real").x, data.prepare(X, Y, space="real").x)


def test_columns_of_numbers_and_of_truth_are_numbers() -> None:
    frame = pd.DataFrame({"x": Y, "b": C > 0, "i": C})
    plain = frame.astype(float).to_numpy()
    assert torch.equal(data.prepare(frame, Y, space="real").x, data.prepare(plain, Y, space="real").x)


def classifier(classes: int) -> likelihoods.Categorical:
    return likelihoods.Categorical(lambda: nn.Linear(3, classes))


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        (
            np.where(C == 1, 5, 0),
            3,
            r"y\[\d+\] is 5, but the network has outputs for 3 classes \(labels 0 to 2\)",
        ),
        (C - 1, 3, r"y\[\d+\] is -1; class labels start at 0"),
        (np.ones(20, int), 3, r"one class only \(1\)"),
        (C, 1, "output is"),
    ],
)
def test_bad_labels_are_refused_before_training(y: Any, classes: int, message: str) -> None:
    made = data.prepare(X, y, space="classes")
    with pytest.raises(ValueError, match=message):
        Cohort.of([priors.Normal()], classifier(classes), made)


@pytest.mark.parametrize("y", [np.full(20, -1.0), np.full(20, 0.5)])
def test_counts_are_checked(y: Any) -> None:
    made = data.prepare(X, y, space="counts")
    with pytest.raises(ValueError, match=r"y\[0\] is .*counts 0, 1, 2"):
        Cohort.of([priors.Normal()], likelihoods.Poisson(lambda: nn.Linear(3, 1)), made)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "one number per row"),
        (-np.ones(20), "at least 0"),
        (np.full(20, np.nan), r"weights\[0\] is nan"),
    ],
)
def test_bad_weights_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        data.prepare(X, Y, space="real", weights=weights)


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ((X[:, :2], Y), "validation X has rows of shape"),
        ((X[:5], Y), "validation X has 5 rows and validation y has 20"),
        ((X[:0], Y[:0]), "validation X has 0 rows"),
        (X, "validation must be a pair"),
        ((spoiled(X, (1, 1), np.nan), Y), r"validation X\[1, 1\] is nan"),
    ],
)
def test_bad_validation_data_is_refused(validation: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        data.prepare(X, Y, space="real", validation=validation)


def test_fewer_rows_than_the_batch_is_one_batch() -> None:
    made = data.prepare(X[:3], Y[:3], space="real")
    assert made.steps(128) == 1
    cohort = Cohort.of([priors.Normal()], likelihoods.Normal(lambda: nn.Linear(3, 1)), made)
    posterior = MeanField(epochs=2).fit(cohort, made, Run())
    assert torch.isfinite(posterior.mu).all()
    one = data.prepare(X[:1], Y[:1], space="real")
    cohort = Cohort.of([priors.Normal()], likelihoods.Normal(lambda: nn.Linear(3, 1)), one)
    assert torch.isfinite(MeanField(epochs=2).fit(cohort, one, Run()).mu).all()


def test_no_batch_has_a_single_row_that_batch_norm_would_refuse() -> None:
    made = data.prepare(np.tile(X, (7, 1))[:129], np.tile(C, 7)[:129], space="classes")
    assert [len(b.x) for b in made.epoch(0, 0, 128)] == [64, 65]


class Pairs(Dataset[tuple[Any, Any]]):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        return X[i], Y[i]


class Ragged(Pairs):
    def __getitem__(self, i: int) -> tuple[Any, Any]:
        return X[i][: 3 - i // 19], Y[i]


def test_datasets_are_read() -> None:
    wanted = data.prepare(X, Y, space="real")
    for given in (Pairs(), TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))):
        made = data.prepare(given, space="real")
        torch.testing.assert_close(made.x, wanted.x)
        torch.testing.assert_close(made.y, wanted.y)
        assert made.digest == wanted.digest
    with pytest.raises(ValueError, match="item 19 of the Dataset has x of shape"):
        data.prepare(Ragged(), space="real")
    with pytest.raises(ValueError, match="do not give y as well"):
        data.prepare(Pairs(), Y, space="real")
    with pytest.raises(ValueError, match="pairs"):
        data.prepare(TensorDataset(torch.from_numpy(X)), space="real")


def test_real_numbers_are_no_tokens() -> None:
    made = data.prepare(np.arange(12).reshape(4, 3), np.arange(4.0), space="real")
    with pytest.raises(ValueError, match=r"trained on whole ones: give X.astype\(int\)"):
        data.new_inputs(np.ones((2, 3)), made, torch.float64)


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 5, 5), (2, 3, 3, 3)])
def test_inputs_are_standardised_by_feature(shape: tuple[int, ...]) -> None:
    source = np.random.default_rng(0)
    axis = 1 if len(shape) != 2 else 2
    size = [1] * (len(shape) + 1)
    size[axis] = -1
    features = shape[axis - 1]
    scale = np.logspace(-3, 3, features).reshape(size)
    x = 1e4 * scale + scale * source.normal(size=(200, *shape))
    made = data.prepare(x, source.normal(size=200), space="real", dtype=torch.float64)
    axes = [a for a in range(len(shape) + 1) if a != axis]
    torch.testing.assert_close(made.x.mean(axes), torch.zeros(features).double(), atol=1e-8, rtol=0)
    torch.testing.assert_close(made.x.square().mean(axes), torch.ones(features).double())
    again = data.new_inputs(x, made, torch.float64)
    torch.testing.assert_close(again, made.x)


def test_constant_columns_and_constant_targets_are_harmless() -> None:
    x = np.column_stack([X, np.full(20, 7.0), np.zeros(20)])
    made = data.prepare(x, np.full(20, 3.0), space="real")
    assert (made.x[:, 3:] == 0).all()
    assert (made.y == 0).all()
    assert torch.isfinite(made.x).all()


def test_integer_inputs_are_tokens_and_false_leaves_everything_as_it_is() -> None:
    tokens = np.arange(40).reshape(20, 2)
    assert data.prepare(tokens, C, space="classes").x.dtype == torch.int64
    made = data.prepare(X, Y, space="real", standardize=False, dtype=torch.float64)
    assert np.array_equal(made.x, X)
    assert np.array_equal(made.y, Y)


def test_the_users_arrays_are_neither_changed_nor_aliased() -> None:
    x, y = X.copy(), Y.copy()
    x.flags.writeable = False
    made = data.prepare(x, y, space="real", standardize=False, dtype=torch.float64)
    y[0] = 99.0
    assert float(made.y[0]) != 99.0
    assert np.array_equal(x, X)


def test_new_inputs_of_another_shape_are_refused() -> None:
    made = data.prepare(X, Y, space="real")
    with pytest.raises(ValueError, match=r"rows of shape \(2,\); the model was trained on \(3,\)"):
        data.new_inputs(X[:, :2], made, torch.float32)


@pytest.mark.parametrize("standardize", [False, True])
def test_weights_count_as_repeated_rows(standardize: bool) -> None:
    """Weight 2 is the row twice: the same full-batch gradients, so the same training."""
    twice = data.prepare(
        np.r_[X, X[:5]], np.r_[Y, Y[:5]], space="real", standardize=standardize, dtype=torch.float64
    )
    weights = np.r_[np.full(5, 2.0), np.ones(15)]
    heavy = data.prepare(X, Y, space="real", weights=weights, standardize=standardize, dtype=torch.float64)
    results: list[Tensor] = []
    for made in (twice, heavy):
        cohort = Cohort.of([priors.Normal()], likelihoods.Normal(lambda: nn.Linear(3, 1), 0.5), made)
        results.append(MeanField(epochs=50, lr=1e-2).fit(cohort, made, Run()).mu)
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-9)
