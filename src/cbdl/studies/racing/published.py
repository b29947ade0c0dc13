"""The paper's numbers (table "tab:six"): coverage of its EBNN and CBDL, one step and the whole horizon."""

LEVELS = (0.9, 0.95, 0.99)
PAPER: dict[str, dict[str, dict[str, tuple[float, float, float]]]] = {
    "in distribution": {
        "EBNN": {"one": (0.962, 0.980, 0.992), "multi": (0.638, 0.826, 0.937)},
        "CBDL": {"one": (0.992, 0.995, 0.997), "multi": (0.914, 0.948, 0.979)},
    },
    "race line": {
        "EBNN": {"one": (0.919, 0.950, 0.980), "multi": (0.532, 0.703, 0.860)},
        "CBDL": {"one": (0.979, 0.988, 0.995), "multi": (0.825, 0.884, 0.943)},
    },
}
"""By test windows (the paper's out-of-distribution ones are those of the race line), method and kind of coverage."""
