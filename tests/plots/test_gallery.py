"""The gallery shows every figure, and its code runs."""

import importlib.util
from pathlib import Path

import pytest

from cbdl import plots

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = sorted(set(plots.__all__) - {"available", "save"})


@pytest.fixture(scope="module")
def gallery():
    spec = importlib.util.spec_from_file_location("gallery", DOCS / "gallery.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_figure_is_shown(gallery):
    page = (DOCS / "gallery.md").read_text()
    drawn = {code.rpartition("ax = plots.")[2].partition("(")[0]: path for code, path in gallery.blocks(page)}
    assert sorted(drawn) == FIGURES
    assert all(path == f"_gallery/{name}.svg" for name, path in drawn.items())


def test_the_code_of_the_gallery_makes_its_figures(gallery, tmp_path):
    made = gallery.draw(tmp_path)
    assert sorted(path.stem for path in made) == FIGURES
    assert all(path.read_text().count("<path") > 10 for path in made)


def test_the_readme_shows_the_first_figure(gallery):
    assert gallery.README.is_file()
    assert f"docs/{gallery.README.relative_to(DOCS)}" in (DOCS.parent / "README.md").read_text()
