"""Which members to keep: all, those the data do not refute, or by relative likelihood: `python -m benchmarks.cuts`.

One fit of the default classifier a table with every member kept (`CBDL_DATA` names the folder of tables); then sets of
some of its members, whose chains are extremes, are compared on test rows. `likelihood, all rows`: that of all left-out
rows together is at least 0.05 times the best one's. `CreRL`: `cbdl.constructions.relative_likelihood` of the chains,
whose likelihood of a training row is at least 0.95 times the best one's on average (Loehr et al. 2025). `plausible at
...`: `CBDL(plausible=...)`, the last of which the estimators use.
"""

from __future__ import annotations

import math
import sys
import warnings

import numpy as np
import torch

from cbdl import CategoricalCredalSet, CredalClassifier, recipe
from cbdl.bayes.plausible import judge
from cbdl.constructions import relative_likelihood
from cbdl.studies.tables import scores
from cbdl.studies.tables.sources import CLASSES, sources

ALPHA, CUT = 0.05, 0.05
CUTS = (0.05, recipe.PLAUSIBLE)
SPLITS = 2


def compared(name: str, split: int) -> dict[str, dict[str, float]]:
    """Of each way to choose members: how many, coverage and size of 95 % sets, NLL of the average, epistemic
    uncertainty."""
    table = sources()[name].load(split)
    estimator = CredalClassifier(plausible=0.0, calibration=None, random_state=split).fit(table.X, table.y)
    model = estimator.model_
    prediction = estimator.predict_credal(table.X_test)
    every = CategoricalCredalSet(np.asarray(prediction.probs))
    seen = np.asarray(estimator.predict_credal(table.X).probs)
    training = np.log(seen[np.arange(len(table.y)), :, table.y].clip(1e-12)).mean(0)
    left = model.left_out()
    total = (left.counts.unsqueeze(1) * left.score).sum(0)
    good = {
        "all": [True] * len(total),
        "likelihood, all rows": (total >= total.max() + math.log(CUT)).tolist(),
    }
    for cut in CUTS:
        verdicts = judge(model.learned.members, left.score, left.counts, cut, least=recipe.LEAST).verdicts
        good[f"plausible at {cut}"] = [v.kept for v in verdicts]
    kept = {
        way: {(m.k, m.s) for m, own in zip(model.learned.members, keep, strict=True) if own}
        for way, keep in good.items()
    }
    chosen = {
        way: CategoricalCredalSet(every.probs[:, [(m.k, m.s) in own for m in prediction.members]])
        for way, own in kept.items()
    }
    chosen["CreRL"] = relative_likelihood(every, training, 0.95)
    return {way: _scores(own, table.y_test) for way, own in chosen.items()}


def _scores(own: CategoricalCredalSet, y: np.ndarray) -> dict[str, float]:
    region = scores.sets(np.asarray(own.region(ALPHA).mask), y)
    return {
        "members": float(own.num_extremes),
        "coverage": region["coverage"],
        "size": region["size"],
        "nll": scores.classes(np.asarray(own.probs).mean(1), y)["nll"],
        "epistemic": float(np.mean(own.uncertainty().epistemic)),
    }


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found: dict[str, list[dict[str, float]]] = {}
    for name in names or [*CLASSES, "digits"]:
        for split in range(SPLITS):
            for way, own in compared(name, split).items():
                found.setdefault(way, []).append(own)
                numbers = "  ".join(f"{key} {value:.3f}" for key, value in own.items())
                print(f"{name:14} {split}  {way:22} {numbers}", flush=True)
    for way, several in found.items():
        mean = {key: np.mean([own[key] for own in several]) for key in several[0]}
        print(f"{'mean':14}    {way:22} " + "  ".join(f"{key} {value:.3f}" for key, value in mean.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
