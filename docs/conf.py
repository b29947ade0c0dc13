"""Sphinx configuration. `make docs` treats every warning as an error."""

import re
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
# these by their names: written out they fill lines
NAMED = ("ArrayLike", "Gamble", "Event", "Views")
autodoc_type_aliases = dict(zip(NAMED, NAMED, strict=True))
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


def tidy(app, name, source):
    """Sessions end with an empty line, which doctest needs to know where an answer ends, and readers do not."""
    source[0] = re.sub(r"\n\n```$", "\n```", source[0], flags=re.M)


def plain(app, what, name, found, options, lines):
    """The first words of a property up to a colon are no type, for which napoleon takes them on a line of theirs."""
    if what in ("property", "attribute") and lines and ": " in lines[0]:
        head, _, rest = lines[0].partition(": ")
        lines[:1] = [f"{head}:", rest]


def setup(app):
    import described
    from sphinx.util.inspect import TypeAliasForwardRef

    # "ArrayLike | None", not "TypeAliasForwardRef('ArrayLike') | None"
    TypeAliasForwardRef.__repr__ = lambda self: self.name

    app.connect("autodoc-process-docstring", described.show_parameters)
    app.connect("autodoc-process-docstring", plain, priority=100)
    app.connect("autodoc-process-signature", described.show_signature)
    app.connect("source-read", tidy)
    app.connect("builder-inited", prepare)
    app.connect("build-finished", redirect)
