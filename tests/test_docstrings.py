"""Docstrings and comments speak of things that are there: modules of this package, files of this repository."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "cbdl").rglob("*.py"))
NAME = re.compile(r"\bcbdl(?:\.[A-Za-z_][A-Za-z0-9_]*)+")
# `bayes.draws`, `solvers.simplex`, `data.prepare(...)`: as a reader of that module would say it
SHORT = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)[`(]")
PATH = re.compile(r"[\w./-]*\b[\w-]+\.(?:py|md|tex|toml|json|csv|txt|html)\b")
MADE = {
    "manifest.json",
    "groups.json",
    "report.json",
    "index.html",
    "_centerline.csv",
    "_raceline.csv",
    "new.csv",
    "pred.csv",
}
"""Files that runs make, or that users have."""
OBJECTS = {
    "cohort": "cbdl.bayes.cohort.Cohort",
    "data": "cbdl.bayes.rows.Data",
    "family": "cbdl.bayes.priors.prior.Family",
    "forward": "cbdl.bayes.forward.Forward",
    "likelihood": "cbdl.bayes.likelihoods.Likelihood",
    "posterior": "cbdl.bayes.methods.protocol.Posterior",
}
"""What values are called, and what they are."""


@cache
def resolves(name: str) -> bool:
    """Whether `name` is a module, or an attribute of one."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for attribute in parts[cut:]:
            if not hasattr(found, attribute):
                return attribute in getattr(found, "__annotations__", {}) or attribute in getattr(
                    found, "__dataclass_fields__", {}
                )
            found = getattr(found, attribute)
        return True
    return False


def words(path: Path) -> str:
    """The comments and strings of a module; code checks its names by itself."""
    text = path.read_text()
    strings = re.findall(r'"""(.*?)"""', text, re.S)
    return "\n".join([*strings, *re.findall(r"#.*", text), *re.findall(r'"[^"\n]*"', text)])


def readings(name: str, path: Path) -> list[str]:
    """What a name may mean in a module: in itself, beside it, further up, anywhere; or an attribute of a value."""
    own = path.relative_to(ROOT / "src").with_suffix("").parts
    first, _, rest = name.partition(".")
    scopes = [".".join([*own[:cut], name]) for cut in range(len(own), 0, -1)]
    return [*scopes, name, *([f"{OBJECTS[first]}.{rest}"] if first in OBJECTS else [])]


@cache
def private_names() -> set[str]:
    """All private names of the package's code, and its modules."""
    names = {source.stem for source in SOURCES}
    for source in SOURCES:
        names |= set(re.findall(r"\b_\w+", re.sub(r'""".*?"""', "", source.read_text(), flags=re.S)))
    return names


@cache
def files() -> set[str]:
    """The files of the repository, without environments and what was built."""
    tops = [p for p in ROOT.iterdir() if p.name not in ("build", "dist") and not p.name.startswith(".")]
    inside = [p for top in tops if top.is_dir() for p in top.rglob("*") if p.is_file()]
    return {str(p.relative_to(ROOT)) for p in [*inside, *(p for p in tops if p.is_file())]}


def lost(path: Path) -> list[str]:
    """Modules that a file's words name, and that do not exist."""
    text = words(path)
    missing = [name for name in sorted(set(NAME.findall(text))) if not resolves(name)]
    short = sorted(name for name in set(SHORT.findall(text)) if not PATH.fullmatch(name))
    return missing + [name for name in short if not any(resolves(n) for n in readings(name, path))]


def docstrings(path: Path) -> str:
    return "\n".join(re.findall(r'"""(.*?)"""', path.read_text(), re.S))


def test_modules_that_are_named_exist() -> None:
    assert not {str(path.relative_to(ROOT)): names for path in SOURCES if (names := lost(path))}


def test_private_names_that_are_mentioned_exist() -> None:
    code = private_names()
    mentioned = {str(p.relative_to(ROOT)): re.findall(r"`(_\w+)`", docstrings(p)) for p in SOURCES}
    assert not [(path, name) for path, names in mentioned.items() for name in names if name not in code]


def test_files_that_are_named_exist() -> None:
    there = {f"/{file}"[i:] for file in files() for i, c in enumerate(f"/{file}") if c == "/"}
    assert not [
        (str(path.relative_to(ROOT)), name)
        for path in SOURCES
        for name in sorted(set(PATH.findall(docstrings(path))))
        if Path(name).name not in MADE and f"/{name.lstrip('./')}" not in there
    ]


def test_the_test_finds_what_is_not_there() -> None:
    assert resolves("cbdl.bayes.rows.Data.held")
    assert resolves("cbdl.bayes.methods.protocol.Posterior.seeds")
    assert not resolves("cbdl.bayes.predict")
    assert not resolves("cbdl.bayes.rows.Data.hold")
