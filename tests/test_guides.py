"""The examples of the guides do what the guides say."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
GUIDES = [page for page in sorted(DOCS.glob("*.md")) if ">>> " in page.read_text()]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_the_examples_of_a_guide_hold(page):
    failed, attempted = doctest.testfile(
        str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert attempted
    assert not failed
