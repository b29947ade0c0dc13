"""The examples of the guides do what the guides say, and their links lead somewhere."""

import doctest
import re
from pathlib import Path

import click
import examples
import pytest
import typer

import cbdl
from cbdl.cli import app

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
GUIDES = [page for page in PAGES if ">>> " in page.read_text()]
CLUSTER = DOCS / "tutorials" / "cluster.md"


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def holds(page: Path) -> None:
    failed, attempted = doctest.testfile(
        str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert attempted
    assert not failed


@pytest.mark.parametrize("page", [page for page in GUIDES if page != CLUSTER], ids=name)
def test_the_examples_of_a_guide_hold(page):
    holds(page)


def test_the_tutorial_about_a_cluster_holds_without_one(monkeypatch):
    """Ray itself takes long to start, and has tests of its own: here its place is taken by this process."""
    monkeypatch.setattr(cbdl.engines, "Ray", lambda **settings: cbdl.engines.Local())
    holds(CLUSTER)


@pytest.mark.slow
def test_the_tutorial_about_a_cluster_holds():
    pytest.importorskip("ray")
    holds(CLUSTER)


@pytest.mark.parametrize("page", examples.TUTORIALS, ids=name)
def test_a_notebook_holds_what_its_page_does(page):
    nbformat = pytest.importorskip("nbformat")
    made = nbformat.from_dict(examples.notebook(page.read_text()))
    nbformat.validate(made)
    code = "".join("".join(cell.source) + "\n" for cell in made.cells if cell.cell_type == "code")
    session = doctest.DocTestParser().get_examples(page.read_text())
    assert code == "".join(example.source for example in session)
    assert f"_notebooks/{page.stem}.ipynb" in page.read_text()
    words = "".join("".join(cell.source) for cell in made.cells if cell.cell_type == "markdown")
    assert page.read_text().splitlines()[0] in words
    assert "](.." not in words


def anchors(page: Path) -> set[str]:
    """What a link to a page may name: its headings, as GitHub and MyST write them."""
    heads = re.findall(r"^#+ +(.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("*.md")], ids=name)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    for link in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = page if not path else (page.parent / path).resolve()
        assert target.exists() or "_gallery" in target.parts, link
        assert not anchor or anchor in anchors(target), link


def options() -> dict[str, set[str]]:
    """The options of every command, with those of its own commands."""
    whole = typer.main.get_command(app)
    context = click.Context(whole)

    def own(command: click.Command) -> set[str]:
        inner = [command.get_command(context, n) for n in getattr(command, "commands", ())]
        return {o for p in command.params for o in (*p.opts, *p.secondary_opts)}.union(*map(own, inner))

    return {name: own(whole.get_command(context, name)) for name in whole.list_commands(context)}


def unknown(text: str, known: dict[str, set[str]]) -> list[str]:
    """Options that commands in a text are given and do not have; what follows "There is no" is left out."""
    text = text.replace("\\\n", " ")
    calls = re.findall(r"(?<!There is no `)\bcbdl (\w+)([^\n`#]*)", text)
    given = [
        (name, o) for name, rest in calls if name in known for o in re.findall(r" (--[a-z][\w-]*)", rest)
    ]
    every = {"--help"}.union(*known.values())
    alone = [("", o) for o in re.findall(r"`(--[a-z][\w-]*)", text)]
    return [f"{name} {o}" for name, o in (*given, *alone) if o not in known.get(name, every)]


def test_options_that_pages_name_exist():
    known = options()
    assert len(known) >= 9
    pages = {name(page): unknown(page.read_text(), known) for page in [*PAGES, ROOT / "README.md"]}
    assert {page: gone for page, gone in pages.items() if gone} == {}
    assert unknown("cbdl fit a.csv --target y --bold", known) == ["fit --bold"]
    assert unknown("with `--bold`", known) == [" --bold"]


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for page in PAGES:
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.S):
            entries = [line for line in tree.splitlines() if line.strip() and not line.startswith(":")]
            listed |= {(page.parent / f"{entry}.md").resolve() for entry in entries}
    assert {page.resolve() for page in PAGES} - listed == {(DOCS / "index.md").resolve()}
