"""How many examples Hypothesis tries: one knob for all properties.

A test names the number of a thorough run (`make test-slow`, `TRIALS=1`). `make test` tries a quarter of them,
`make test-portable`, where the same properties run once more for the sake of other processors, a fifth; at least three.
"""

from __future__ import annotations

import os

from hypothesis import settings

SHARE = float(os.environ.get("TRIALS", "0.25"))
LEAST = 3


def trials(count: int) -> settings:
    """The settings of a test that tries `count` examples in a thorough run; it has all the time it needs."""
    return settings(max_examples=max(LEAST, round(SHARE * count)), deadline=None)
