"""Sphinx configuration. `make docs` treats every warning as an error."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "cbdl"
author = "The cbdl developers"
copyright = "2026, the cbdl developers"
version = release = installed("cbdl")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_notebooks"]
default_role = "code"  # `name` in docstrings is code
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_title = "cbdl"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autoclass_content = "both"


MOVED = {
    "constructions": "how-to/constructions",
    "credal": "explanation/credal-sets",
    "data": "how-to/image-data",
    "engine": "explanation/posteriors",
    "estimators": "how-to/estimators",
    "members": "explanation/members",
    "seeing": "how-to/seeing",
    "serving": "how-to/serving",
    "traps": "explanation/traps",
}
"""Pages that had another address before: the old ones lead to the new ones."""


def prepare(app):
    """Figures and notebooks are made by the pages' own code, at every build."""
    import examples
    import gallery

    gallery.draw(HERE)
    examples.write_notebooks(HERE / "_notebooks")


def redirect(app, error):
    if error is None and app.builder.format == "html":
        for old, new in MOVED.items():
            leave = f'<meta http-equiv="refresh" content="0; url={new}.html">'
            page = f'<!doctype html><title>Moved</title>{leave}<a href="{new}.html">This page has moved</a>\n'
            (Path(app.outdir) / f"{old}.html").write_text(page)


def setup(app):
    import described

    app.connect("autodoc-process-docstring", described.show_parameters)
    app.connect("builder-inited", prepare)
    app.connect("build-finished", redirect)
