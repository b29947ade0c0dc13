"""The gallery shows every figure, and its code runs."""

from pathlib import Path

import examples
import gallery
import pytest

from cbdl import plots

DOCS = Path(__file__).parents[2] / "docs"
FIGURES = sorted(set(plots.__all__) - {"available", "save"})


def test_every_figure_is_shown():
    blocks = examples.blocks(gallery.GALLERY.read_text())
    drawn = {code.rpartition("ax = plots.")[2].partition("(")[0]: path for code, path in blocks}
    assert sorted(drawn) == FIGURES
    assert all(path == f"_gallery/{name}.svg" for name, path in drawn.items())


def test_the_code_of_the_gallery_makes_its_figures(tmp_path):
    made = examples.draw(gallery.GALLERY, tmp_path)
    assert sorted(path.stem for path in made) == FIGURES
    assert all(path.read_text().count("<path") > 10 for path in made)


@pytest.mark.parametrize("name", ["logits", "deciding"])
def test_the_figures_of_a_tutorial_are_made(name, tmp_path):
    [figure] = examples.draw(DOCS / "tutorials" / f"{name}.md", tmp_path)
    assert figure == tmp_path / "_gallery" / f"tutorial-{name}.svg"
    assert figure.read_text().count("<path") > 10


def test_the_readme_shows_the_first_figure():
    assert gallery.README.is_file()
    assert f"docs/{gallery.README.relative_to(DOCS)}" in (DOCS.parent / "README.md").read_text()
