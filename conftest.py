"""For tests and for the examples of docstrings: figures are closed after whoever opened them."""

import gc
import sys
from collections.abc import Iterator

import pytest

# torch, Ray and the rest are millions of objects that stay: to go through them again and again takes a twentieth of all
gc.set_threshold(100_000, 50, 50)


@pytest.fixture(autouse=True)
def figures_closed() -> Iterator[None]:
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
