"""For tests and for the examples of docstrings: figures are closed after whoever opened them."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def figures_closed() -> Iterator[None]:
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
