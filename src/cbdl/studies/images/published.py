"""The paper's numbers: foreign data (its tables of OOD), and areas under accuracy-rejection by severity."""

from __future__ import annotations

AUROC: dict[str, dict[str, dict[str, tuple[float, float]]]] = {
    "mnist": {
        "cifar": {"CBDL": (0.930, 0.912), "EBNN": (0.827, 0.040), "BNN": (0.835, 0.882)},
        "fashion": {"CBDL": (0.956, 0.935), "EBNN": (0.804, 0.030), "BNN": (0.929, 0.960)},
        "svhn": {"CBDL": (0.971, 0.926), "EBNN": (0.808, 0.033), "BNN": (0.874, 0.898)},
    },
    "fashion": {
        "cifar": {"CBDL": (0.933, 0.724), "EBNN": (0.862, 0.121), "BNN": (0.703, 0.770)},
        "mnist": {"CBDL": (0.925, 0.881), "EBNN": (0.770, 0.085), "BNN": (0.962, 0.933)},
        "svhn": {"CBDL": (0.972, 0.830), "EBNN": (0.865, 0.066), "BNN": (0.855, 0.904)},
    },
    "cifar": {
        "mnist": {"CBDL": (0.905, 0.826), "EBNN": (0.805, 0.104), "BNN": (0.860, 0.929)},
        "fashion": {"CBDL": (0.920, 0.836), "EBNN": (0.816, 0.093), "BNN": (0.808, 0.937)},
        "svhn": {"CBDL": (0.851, 0.823), "EBNN": (0.789, 0.117), "BNN": (0.826, 0.909)},
    },
    "svhn": {
        "cifar": {"CBDL": (0.979, 0.941), "EBNN": (0.890, 0.014), "BNN": (0.964, 0.952)},
        "mnist": {"CBDL": (0.781, 0.679), "EBNN": (0.777, 0.205), "BNN": (0.728, 0.709)},
        "fashion": {"CBDL": (0.967, 0.881), "EBNN": (0.899, 0.030), "BNN": (0.921, 0.917)},
    },
}
"""By trained source, foreign source and method: AUROC by epistemic and by aleatoric uncertainty."""

MEANS: dict[str, dict[str, dict[str, tuple[float, float]]]] = {
    "mnist": {
        "clean": {"CBDL": (0.188, 0.057), "EBNN": (0.012, 0.063), "BNN": (0.198, 0.071)},
        "cifar": {"CBDL": (0.185, 0.167), "EBNN": (0.023, 0.042), "BNN": (0.821, 0.372)},
        "fashion": {"CBDL": (0.162, 0.187), "EBNN": (0.019, 0.035), "BNN": (0.919, 0.461)},
        "svhn": {"CBDL": (0.190, 0.168), "EBNN": (0.022, 0.043), "BNN": (0.923, 0.297)},
    },
    "fashion": {
        "clean": {"CBDL": (0.121, 0.029), "EBNN": (0.007, 0.075), "BNN": (0.197, 0.351)},
        "cifar": {"CBDL": (0.205, 0.104), "EBNN": (0.022, 0.050), "BNN": (0.408, 0.221)},
        "mnist": {"CBDL": (0.165, 0.182), "EBNN": (0.021, 0.033), "BNN": (0.909, 0.328)},
        "svhn": {"CBDL": (0.218, 0.109), "EBNN": (0.026, 0.046), "BNN": (0.598, 0.305)},
    },
    "cifar": {
        "clean": {"CBDL": (0.102, 0.031), "EBNN": (0.008, 0.076), "BNN": (0.151, 0.179)},
        "mnist": {"CBDL": (0.184, 0.142), "EBNN": (0.021, 0.044), "BNN": (0.445, 0.772)},
        "fashion": {"CBDL": (0.183, 0.147), "EBNN": (0.022, 0.042), "BNN": (0.431, 0.811)},
        "svhn": {"CBDL": (0.183, 0.141), "EBNN": (0.019, 0.046), "BNN": (0.394, 0.647)},
    },
    "svhn": {
        "clean": {"CBDL": (0.061, 0.010), "EBNN": (0.004, 0.083), "BNN": (0.097, 0.107)},
        "cifar": {"CBDL": (0.181, 0.121), "EBNN": (0.026, 0.040), "BNN": (0.655, 0.716)},
        "mnist": {"CBDL": (0.198, 0.063), "EBNN": (0.024, 0.056), "BNN": (0.329, 0.336)},
        "fashion": {"CBDL": (0.199, 0.113), "EBNN": (0.026, 0.041), "BNN": (0.103, 0.125)},
    },
}
"""By trained source, test rows and method: mean epistemic and aleatoric uncertainty."""

SEVERITY: dict[str, dict[str, tuple[float, float, float, float, float]]] = {
    "mnist": {
        "CBDL": (0.929, 0.896, 0.841, 0.737, 0.539),
        "EBNN": (0.919, 0.879, 0.804, 0.713, 0.495),
        "BNN": (0.645, 0.680, 0.617, 0.639, 0.404),
    },
    "fashion": {
        "CBDL": (0.748, 0.641, 0.529, 0.489, 0.391),
        "EBNN": (0.730, 0.655, 0.498, 0.421, 0.351),
        "BNN": (0.525, 0.537, 0.442, 0.332, 0.300),
    },
    "cifar": {
        "CBDL": (0.982, 0.946, 0.907, 0.836, 0.734),
        "EBNN": (0.983, 0.947, 0.906, 0.838, 0.734),
        "BNN": (0.754, 0.761, 0.749, 0.733, 0.661),
    },
    "svhn": {
        "CBDL": (0.909, 0.835, 0.758, 0.588, 0.385),
        "EBNN": (0.913, 0.843, 0.764, 0.586, 0.378),
        "BNN": (0.698, 0.703, 0.669, 0.608, 0.455),
    },
}
"""By source and method: the area under accuracy-rejection at severities 1 to 5, mean over noises."""
