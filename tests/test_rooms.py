"""Dependencies point one way: the rooms of the package, and which of them each may enter."""

import ast
import sys
from functools import cache
from pathlib import Path

import cbdl

PACKAGE = Path(cbdl.__file__).parent
GROUND = {"ground", "nets"}
"""Rooms that know no other; `nets` holds networks by name."""
MODEL = {"steps", "prediction", "evaluate", "store", "engines", "bayes", "credal", *GROUND}
BELOW: dict[str, set[str]] = {
    "ground": set(),
    "nets": set(),
    "credal": {"ground"},
    "bayes": {"credal", *GROUND},
    "engines": {"bayes", *GROUND},
    "store": {"bayes", *GROUND},
    "evaluate": {"credal", *GROUND},
    "constructions": {"bayes", "credal", *GROUND},
    "data": {*GROUND},
    "prediction": {"bayes", "credal", *GROUND},
    "steps": {"prediction", "evaluate", "engines", "bayes", "credal", *GROUND},
    "model": MODEL,
    "priors": {"bayes"},
    "likelihoods": {"bayes"},
    "baselines": {"model", "bayes", "credal", *GROUND},
    "recipe": {"bayes", *GROUND},
    "estimators": {"model", "store", "steps", "recipe", "prediction", "evaluate", "bayes", "credal", *GROUND},
    "tables": {"model", "recipe", *MODEL},
    "plots": {"model", "prediction", "evaluate", "bayes", "credal", "data", *GROUND},
}
BELOW["report"] = {"plots", *BELOW["plots"], *BELOW["tables"], "tables"}
BELOW["serve"] = {*BELOW["tables"], "tables"}
EVERYTHING = {*BELOW, "studies"}
BELOW |= {"studies": {*BELOW} - {"serve"}, "cli": EVERYTHING, "__main__": {"cli"}}
"""What each room may import. Only the command line imports studies."""


def room(name: str) -> str | None:
    """The room of a dotted module name, or None if it is not one of the package's."""
    parts = name.split(".")
    return parts[1] if parts[0] == "cbdl" and len(parts) > 1 else None


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> set[str]:
    """All modules of the package that a file imports, wherever in the file."""
    here = ["cbdl", *path.relative_to(PACKAGE).with_suffix("").parts]
    names = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: -node.level]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            names |= {f"{module}.{alias.name}" for alias in node.names} if module == "cbdl" else {module}
    return {name for name in names if name.split(".")[0] == "cbdl"}


FILES = sorted(PACKAGE.rglob("*.py"))


def test_a_file_enters_only_rooms_below_its_own():
    crossed = {}
    for path in FILES:
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if own != "__init__":
            assert own in BELOW, f"{own} is a new room: say in tests/test_rooms.py what it may import"
            entered = {room(name) for name in imports(path)} - {own, None, "__version__"}
            crossed[str(path.relative_to(PACKAGE))] = entered - BELOW[own]
    assert not {path: rooms for path, rooms in crossed.items() if rooms}


def test_the_rooms_have_no_circle():
    order: list[str] = []
    while len(order) < len(BELOW):
        free = [name for name, below in BELOW.items() if name not in order and below - {name} <= set(order)]
        assert free, f"a circle among {set(BELOW) - set(order)}"
        order += free


def test_the_kernel_is_mathematics_only():
    tops = {
        (node.module or "").split(".")[0] if isinstance(node, ast.ImportFrom) else alias.name.split(".")[0]
        for path in (PACKAGE / "credal").rglob("*.py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level)
        for alias in node.names
    }
    assert tops <= sys.stdlib_module_names | {"cbdl", "torch", "numpy", "scipy", "numba", "llvmlite"}


def test_a_solver_knows_no_space():
    for path in (PACKAGE / "credal" / "solvers").glob("*.py"):
        entered = {name for name in imports(path) if name.startswith("cbdl.credal.")}
        spaces = ("classes", "line", "euclidean", "capacity")
        assert not any(name.startswith(f"cbdl.credal.{space}") for name in entered for space in spaces), path


def test_private_modules_and_names_stay_in_their_room():
    """`_border` and the like belong to the room they are in; others use what the room shows."""
    crossed = []
    for path in FILES:
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and node.module and room(node.module) not in (None, own):
                names = [a.name for a in node.names if not a.name.endswith("__")]
                private = [name for name in names if name.startswith("_")]
                private += [part for part in node.module.split(".") if part.startswith("_")]
                crossed += [f"{path.relative_to(PACKAGE)}: {name}" for name in private]
    assert not crossed
