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
exclude_patterns = ["_build"]
default_role = "code"  # `name` in docstrings is code
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_title = "cbdl"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
autoclass_content = "both"


def setup(app):
    """The figures of the gallery are made by its own code, at every build."""
    import gallery

    app.connect("builder-inited", lambda app: gallery.draw(HERE) and None)
