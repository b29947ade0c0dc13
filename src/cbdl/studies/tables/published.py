"""Numbers that others have published, with where they are from: facts to compare with, nothing that was run here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """Root mean squared error and NLL (nats) of a method on a table, means over the supplied splits."""

    rmse: float
    nll: float


ENSEMBLE, DROPOUT = "deep ensemble", "MC dropout"
SOURCES = {
    ENSEMBLE: "Lakshminarayanan et al. 2017: 5 networks with one hidden layer of 50 (protein: 100), 40 epochs",
    DROPOUT: "Mukhoti et al. 2018: rate and precision chosen on a grid, trained to convergence",
    "deep evidential": "Amini et al. 2020",
    "bde": "the paper of bde: 10 networks of 4 layers of 16, a fixed split of its own, mean over 5 seeds",
    "TabPFN v2": "the paper of bde, on the same split",
    "XGBoost": "the paper of bde, on the same split",
}
NUMBERS: dict[str, dict[str, Published]] = {
    "concrete": {
        ENSEMBLE: Published(6.03, 3.06),
        DROPOUT: Published(4.82, 2.93),
        "deep evidential": Published(5.85, 3.01),
    },
    "energy": {
        ENSEMBLE: Published(2.09, 1.38),
        DROPOUT: Published(0.54, 1.21),
        "deep evidential": Published(2.06, 1.39),
    },
    "power": {
        ENSEMBLE: Published(4.11, 2.79),
        DROPOUT: Published(4.01, 2.80),
        "deep evidential": Published(4.23, 2.81),
    },
    "protein": {
        ENSEMBLE: Published(4.71, 2.83),
        DROPOUT: Published(4.27, 2.87),
        "deep evidential": Published(4.64, 2.63),
    },
    "wine": {
        ENSEMBLE: Published(0.64, 0.94),
        DROPOUT: Published(0.62, 0.93),
        "deep evidential": Published(0.61, 0.89),
    },
    "airfoil": {
        ENSEMBLE: Published(0.365, 0.176),
        "bde": Published(0.1215, -0.913),
        "TabPFN v2": Published(0.1359, -0.934),
        "XGBoost": Published(0.2025, -0.178),
    },
}
"""Table -> method -> its numbers. Airfoil: in units of the training rows, the deep ensemble too is from bde's paper."""
