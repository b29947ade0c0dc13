"""The diabetes data: intervals that widen, and ignorance that grows, where nobody like that was in training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes

from cbdl import nets
from cbdl.bayes import likelihoods, priors
from cbdl.bayes.methods import MeanField
from cbdl.model import CBDL
from cbdl.plots import demo as figures
from cbdl.report import Block, explain
from cbdl.report import parts as sections
from cbdl.report.compare import compared, score_table
from cbdl.studies.part import Part, cell
from cbdl.tables.files import Floats

ALPHA = 0.05
BMI = 2
"""The column of the body-mass index."""
SHARE = 0.85
"""Training sees people up to this quantile of the body-mass index."""
TEST = 90
MOVED = 4
"""Standard deviations by which every measurement of the people "far away" is moved, up or down."""
SAMPLES = 100


@dataclass(frozen=True)
class People:
    """Ten measurements a person (rows, 10), and the progression of the disease after a year where it is known."""

    name: str
    X: Floats
    y: Any = None


def model(seed: int) -> CBDL:
    """Three priors that differ in centre and scale, two networks, a learned noise; Bayes' rule as it is."""
    return CBDL(
        [priors.Centred(priors.Normal(0, scale), k) for k, scale in enumerate((0.3, 0.5, 0.7))],
        [likelihoods.Normal(nets.mlp(10, 1, hidden), scale="learned") for hidden in ((32,), (16, 16))],
        MeanField(epochs=200, batch_size=64, lr=5e-3, patience=None),
        seed=seed,
        verbose=False,
    )


def data(seed: int) -> tuple[People, list[People]]:
    """People to train on, and people to ask about."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    source = np.random.default_rng(seed)
    usual = X[:, BMI] <= np.quantile(X[:, BMI], SHARE)
    order = source.permutation(np.flatnonzero(usual))
    train, test = order[:-TEST], order[-TEST:]
    far = X[test] + source.choice([-MOVED, MOVED], (TEST, X.shape[1])) * X[train].std(0)
    groups = [
        People("inside", X[test], y[test]),
        People("high body mass", X[~usual], y[~usual]),
        People("far away", far),
    ]
    return People("training", X[train], y[train]), groups


def asked_about(trained: CBDL, people: People) -> dict[str, Any]:
    """Scores on one kind of people."""
    credal = trained.predict(people.X, SAMPLES, predictive="normal")
    split, region = credal.uncertainty(), credal.region(ALPHA)
    decision = np.asarray(credal.decide("maximin", single=True))
    known = people.y is not None
    return {
        "people": len(people.X),
        "rmse": float(np.sqrt(np.mean((decision - people.y) ** 2))) if known else None,
        "width": float(np.mean(region.measure)),
        "coverage": float(np.mean(region.contains(people.y))) if known else None,
        "aleatoric": float(np.mean(split.aleatoric)),
        "epistemic": float(np.mean(split.epistemic)),
        "floor": float(np.mean(np.asarray(credal.floor))),
    }


def sweep(trained: CBDL, train: People) -> dict[str, Any]:
    """The average person with a body-mass index far below to far above those of training."""
    seen = train.X[:, BMI]
    bmi = np.linspace(seen.min() - 13, seen.max() + 25, 81)
    X = np.tile(train.X.mean(0), (len(bmi), 1))
    X[:, BMI] = bmi
    credal = trained.predict(X, SAMPLES, predictive="normal")
    ends = credal.region(ALPHA).intervals
    return {
        "bmi": bmi,
        "seen": (float(seen.min()), float(seen.max())),
        "loc": credal.loc,
        "lower": np.nanmin(ends, (1, 2)),
        "upper": np.nanmax(ends, (1, 2)),
        "epistemic": credal.uncertainty().epistemic,
        "points": (seen, train.y),
    }


def part(seed: int) -> Part:
    """Train, ask, and say what came out."""
    train, groups = data(seed)
    trained = model(seed).fit(train.X, train.y)
    scores = {people.name: asked_about(trained, people) for people in groups}
    drawn = sweep(trained, train)
    most = float(train.X[:, BMI].max())
    first, second, last = (scores[people.name] for people in groups)
    return Part(
        "diabetes",
        "3. Diabetes: how far has the disease gone after a year?",
        f"{len(train.X)} of scikit-learn's 442 people train {len(trained.priors)} x {len(trained.likelihoods)} "
        f"Bayesian networks; all have a body-mass index of at most {most:.1f}. Then the networks are asked about "
        f"{TEST} others like them (inside), about the {len(groups[1].X)} people with a higher index, and about the "
        f"{TEST} with every measurement moved by {MOVED} standard deviations, up or down (far away: nobody is so).",
        ("people", "error", "width", "coverage", "aleatoric", "epistemic", "floor"),
        tuple(_row(name, kind) for name, kind in scores.items()),
        (
            "error: root mean square of the decision. width, coverage: of the interval that all networks agree to "
            f"cover with {1 - ALPHA:.0%}. aleatoric, epistemic and floor as above. Nobody knows the outcome far away.",
            f"See: far away the epistemic uncertainty is {last['epistemic']:.2f}, against {first['epistemic']:.2f} "
            f"inside, and the intervals are {last['width'] / first['width']:.1f} times as wide. People just beyond the "
            f"range are still much like the others: {second['epistemic']:.2f}, and intervals "
            f"{second['width'] / first['width']:.1f} times as wide.",
        ),
        {"alpha": ALPHA, **scores},
        "The average person with another body-mass index. Grey: the range of training. Lines are the networks, the "
        f"band is the {1 - ALPHA:.0%} interval that all agree to cover. Below: the epistemic uncertainty.",
        lambda figure: figures.diabetes(figure, drawn),
        details(trained, groups[1]),
    )


def details(trained: CBDL, people: People) -> tuple[Block, ...]:
    """What was trained, how that went, and which people are the hardest, with what makes them so."""
    names = load_diabetes().feature_names

    def predict(X: Floats) -> Any:
        return trained.predict(X, SAMPLES, predictive="normal")

    known = predict(people.X)
    usual = explain.features_of_numbers(people.X, names)
    found = {
        kind: explain.most_uncertain(predict, people.X, known, usual, kind, alpha=ALPHA)
        for kind in explain.KINDS
    }
    return (
        *sections.trained(trained),
        *sections.checked(sections.diagnosed(trained)),
        score_table(compared(known, people.y, ALPHA), len(people.X), ALPHA, f"People of {people.name!r}."),
        f"The people of {people.name!r} that the networks are most uncertain of, and how their interval moves when one "
        "measurement is set to the median of these people, all others as they are:",
        *sections.uncertain(found, alpha=ALPHA),
    )


def _row(name: str, scores: dict[str, Any]) -> tuple[str, ...]:
    digits = {"rmse": 1, "width": 0, "coverage": 3, "aleatoric": 2, "epistemic": 2, "floor": 2}
    return (name, *(cell(scores[key], n) for key, n in digits.items()))
