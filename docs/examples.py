"""The code of the pages: read from their blocks, run for their figures, written as notebooks.

A block is ```python ... ```, plain or with the prompts of a session (`>>> `). Figures are made where a picture of
the folder `_gallery` follows a block that leaves `ax`.
"""

from __future__ import annotations

import doctest
import io
import json
import re
import warnings
from contextlib import redirect_stdout
from pathlib import Path

HERE = Path(__file__).parent
BLOCK = re.compile(r"```python\n(.*?)```\n(?:!\[[^\]]*\]\(([^)]+)\))?", re.S)
TUTORIALS = tuple(sorted(path for path in (HERE / "tutorials").glob("*.md") if path.stem != "index"))


def source(block: str) -> str:
    """The code of a block, without prompts and answers."""
    if ">>> " not in block:
        return block
    return "".join(example.source for example in doctest.DocTestParser().get_examples(block))


def blocks(page: str) -> list[tuple[str, str]]:
    """(code, path of its figure) of every block of a page; the path is empty where no figure follows."""
    return [(source(block), path) for block, path in BLOCK.findall(page)]


def draw(page: Path, folder: Path, only: str | None = None) -> list[Path]:
    """Run the page's code; its figures below `folder`, as the page has them below the documentation, up to `only`."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    made, names = [], dict[str, object]()
    quiet = redirect_stdout(io.StringIO())
    with quiet, warnings.catch_warnings(), mpl.rc_context({"svg.hashsalt": "gallery"}):
        warnings.simplefilter("ignore")
        for code, path in blocks(page.read_text()):
            exec(compile(code, page.name, "exec"), names)
            if path:
                target = folder / (page.parent / path).resolve().relative_to(HERE.resolve())
                target.parent.mkdir(parents=True, exist_ok=True)
                names["ax"].figure.savefig(target, metadata={"Date": None})  # type: ignore[attr-defined]
                made.append(target)
                if path == only:
                    break
                pyplot.close("all")
    return made


def notebook(page: str) -> dict[str, object]:
    """A page as a Jupyter notebook (format 4.5): its words and its blocks, a cell each; figures come when it is run."""
    cells, end = list[dict[str, object]](), 0
    for block in BLOCK.finditer(page):
        cells += _words(page[end : block.start()])
        cells.append(_cell("code", source(block[1]), execution_count=None, outputs=[]))
        end = block.end()
    cells += _words(page[end:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _words(text: str) -> list[dict[str, object]]:
    """A cell of words, if there are any; the notebook stands alone, so that links to other pages become their words."""
    text = re.sub(r"\{download\}`[^`]*`\.?", "", text)
    text = re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", text).strip()
    return [_cell("markdown", text)] if text else []


def _cell(kind: str, text: str, **more: object) -> dict[str, object]:
    return {"cell_type": kind, "metadata": {}, "source": text.rstrip().splitlines(keepends=True), **more}


def write_notebooks(folder: Path) -> list[Path]:
    """Every tutorial as a notebook in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [folder / f"{page.stem}.ipynb" for page in TUTORIALS]
    for page, target in zip(TUTORIALS, made, strict=True):
        target.write_text(json.dumps(notebook(page.read_text()), indent=1) + "\n")
    return made
