"""The figures of gallery.md and of the tutorials, made by the code of the pages.

`python docs/gallery.py` makes them all, `python docs/gallery.py readme` the one of the README.
"""

from __future__ import annotations

import sys
from pathlib import Path

import examples

HERE = Path(__file__).parent
GALLERY = HERE / "gallery.md"
README = HERE / "_static" / "fit.png"
FIRST = "_gallery/band.svg"


def draw(folder: Path) -> list[Path]:
    """All figures, below `folder`; pages whose code needs a cluster show none and are not run."""
    pages = [GALLERY, *(page for page in examples.TUTORIALS if "/_gallery/" in page.read_text())]
    return [figure for page in pages for figure in examples.draw(page, folder)]


def draw_readme() -> None:
    """The first figure, as the README shows it."""
    from matplotlib import pyplot

    examples.draw(GALLERY, HERE, FIRST)
    pyplot.gcf().savefig(README, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    draw_readme() if sys.argv[1:] == ["readme"] else draw(HERE)
