"""Handwritten digits: a model that is sure of digits, less so of spoiled ones, and ignorant of all else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_sample_images

from cbdl import nets
from cbdl.bayes import likelihoods, priors
from cbdl.bayes.methods import MeanField
from cbdl.model import CBDL
from cbdl.plots import demo as figures
from cbdl.report import Block
from cbdl.report import parts as sections
from cbdl.report.compare import compared, score_table
from cbdl.studies.part import Part, cell
from cbdl.tables.files import Floats

ALPHA = 0.05
TRAIN = 1200
NOISE = 0.3
"""Standard deviation of the noise on pixels between 0 (white) and 1 (black)."""
SHRINK = 4
"""A pixel of a photograph's patch is the mean of a square of this side."""
PATCHES = 600
SAMPLES = 40


@dataclass(frozen=True)
class Images:
    """Images (rows, 64) of pixels in [0, 1], and the digits that they show, where they show some."""

    name: str
    X: Floats
    y: Any = None


def model(seed: int) -> CBDL:
    """Three priors that differ in centre and scale, two networks.

    Priors centred at different random networks agree where data speaks and not elsewhere. Mean-field posteriors of a
    thousand images stay too wide at temperature 1; at 0.1 every image counts ten times.
    """
    return CBDL(
        [priors.Centred(priors.Normal(0, scale), k) for k, scale in enumerate((0.3, 0.5, 0.7))],
        [likelihoods.Categorical(nets.mlp(64, 10, hidden)) for hidden in ((64, 64), (128,))],
        MeanField(epochs=100, lr=5e-3, temperature=0.1, patience=None),
        seed=seed,
        standardize=False,
        verbose=False,
    )


def data(seed: int) -> tuple[Images, list[Images]]:
    """Images to train on, and images to ask about. Photographs are left out where Pillow is not installed."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    source = np.random.default_rng(seed)
    order = source.permutation(len(X))
    train, test = order[:TRAIN], order[TRAIN:]
    clean = X[test]
    noisy = np.clip(clean + source.normal(0, NOISE, clean.shape), 0, 1)
    kinds = [
        Images("clean digits", clean, y[test]),
        Images("noisy digits", noisy, y[test]),
        Images("scrambled", clean[:, source.permutation(64)]),
    ]
    photographs = _photographs(source)
    if photographs is not None:
        kinds.append(Images("photographs", photographs))
    return Images("training", X[train], y[train]), kinds


def _photographs(source: np.random.Generator) -> Floats | None:
    """Patches of 8 x 8 from the two photographs of scikit-learn (a temple, a flower), in grey."""
    try:
        pictures = load_sample_images().images
    except ImportError:
        return None
    patches = []
    for picture in pictures:
        height, width = (n // SHRINK * SHRINK for n in picture.shape[:2])
        grey = picture[:height, :width].mean(-1) / 255
        small = grey.reshape(height // SHRINK, SHRINK, width // SHRINK, SHRINK).mean((1, 3))
        for _ in range(PATCHES // len(pictures)):
            i, j = (source.integers(n - 8) for n in small.shape)
            patches.append(small[i : i + 8, j : j + 8].ravel())
    return source.permutation(np.array(patches))


def asked_about(trained: CBDL, images: Images) -> dict[str, Any]:
    """Scores on one kind of images; `each` holds what is drawn."""
    credal = trained.predict(images.X, SAMPLES)
    split, region = credal.uncertainty(), credal.region(ALPHA)
    decision = np.asarray(credal.decide("maximin", single=True))
    known = images.y is not None
    return {
        "images": len(images.X),
        "accuracy": float(np.mean(decision == images.y)) if known else None,
        "size": float(np.mean(region.measure)),
        "coverage": float(np.mean(region.contains(images.y))) if known else None,
        "aleatoric": float(np.mean(split.aleatoric)),
        "epistemic": float(np.mean(split.epistemic)),
        "floor": float(np.mean(np.asarray(credal.floor))),
        "each": {"X": images.X, "epistemic": split.epistemic, "mask": region.mask},
    }


def part(seed: int) -> Part:
    """Train, ask, and say what came out."""
    train, kinds = data(seed)
    trained = model(seed).fit(train.X, train.y)
    scores = {images.name: asked_about(trained, images) for images in kinds}
    limit = float(np.quantile(scores[kinds[0].name]["each"]["epistemic"], 0.95))
    for kind in scores.values():
        kind["flagged"] = float(np.mean(kind["each"]["epistemic"] > limit))
    drawn = {name: kind.pop("each") for name, kind in scores.items()}
    return Part(
        "digits",
        "2. Handwritten digits",
        f"{len(train.X)} of scikit-learn's digits (8 x 8 pixels) train {len(trained.priors)} x "
        f"{len(trained.likelihoods)} Bayesian networks (at temperature 0.1: every image counts ten times). Then the "
        f"networks are asked about {len(kinds[0].X)} new digits; about the same with noise (standard deviation "
        f"{NOISE:g} of the range from white to black); and about what is no "
        "digit: the clean digits with their pixels in another order (scrambled)"
        + (
            ", and pieces of 8 x 8 pixels of scikit-learn's two photographs, a temple and a flower."
            if "photographs" in scores
            else '. (With pip install "cbdl[plots]" also pieces of photographs.)'
        ),
        ("images", "accuracy", "set", "coverage", "aleatoric", "epistemic", "floor", "flagged"),
        tuple(_row(name, kind) for name, kind in scores.items()),
        _lessons(scores, limit),
        {"alpha": ALPHA, "limit": limit, **scores},
        "Left: the epistemic uncertainty of all images of a kind; dotted: what 95% of the clean digits stay below. "
        f"Right: the first six of each kind, with the digits that the {1 - ALPHA:.0%} set holds.",
        lambda figure: figures.digits(figure, drawn, limit),
        details(trained, kinds[0]),
    )


def details(trained: CBDL, images: Images) -> tuple[Block, ...]:
    """What was trained, how that went, and scores beside those of the average and of one network."""
    scores = compared(trained.predict(images.X, SAMPLES), images.y, ALPHA)
    return (
        *sections.trained(trained),
        *sections.checked(sections.diagnosed(trained)),
        score_table(scores, len(images.X), ALPHA, f"On {images.name}."),
    )


def _row(name: str, scores: dict[str, Any]) -> tuple[str, ...]:
    digits = {"accuracy": 3, "size": 1, "coverage": 3, "aleatoric": 2, "epistemic": 2, "floor": 2}
    numbers = (cell(scores[key], n) for key, n in digits.items())
    return (name, *numbers, f"{scores['flagged']:.0%}")


def _lessons(scores: dict[str, Any], limit: float) -> tuple[str, ...]:
    first, last = scores["clean digits"], list(scores)[-1]
    times = scores[last]["epistemic"] / first["epistemic"]
    return (
        f"set, coverage: how many digits are in the set that all networks agree to cover with {1 - ALPHA:.0%}, and how "
        "often the true one is among them. aleatoric (noise) and epistemic (ignorance) are in nats; floor is the "
        f"epistemic uncertainty that Monte Carlo alone could show. flagged: epistemic above {limit:.2f}, which 95% of "
        "the clean digits stay below.",
        f"See: on {last}, which the networks were never taught, the epistemic uncertainty is {times:.0f} times that on "
        f"clean digits, and {scores[last]['flagged']:.0%} of them are flagged. The networks do not pretend to see a "
        f"digit: their set holds {scores[last]['size']:.1f} of the 10, against {first['size']:.1f} on clean digits.",
    )
