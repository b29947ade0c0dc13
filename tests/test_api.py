"""The reference lists every public name, and importing cbdl stays light."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import described
import pytest

import cbdl
from cbdl import constructions, credal, data, engines, evaluate, likelihoods, nets, plots, priors, serve
from cbdl.bayes.diagnostics import Diagnostics
from cbdl.bayes.plausible import Plausibility

PAGE = Path(__file__).parent.parent / "docs" / "api.md"
TEXT = PAGE.read_text()


ROOMS = [cbdl, credal, constructions, data, evaluate, plots, serve]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_every_public_name_is_in_the_reference(room):
    """What the package and the kernel offer may stand under the name of the other, or of the room it lives in."""
    homes = [room.__name__, *(["cbdl", "cbdl.bayes"] if room in (cbdl, credal) else [])]
    names = [name for name in room.__all__ if not name.startswith("__")]
    assert [name for name in names if not any(f"{home}.{name}" in TEXT for home in homes)] == []


@pytest.mark.parametrize("module", [priors, likelihoods])
def test_every_prior_and_likelihood_is_in_the_reference(module):
    base = module.Prior if module is priors else module.Likelihood
    short = module.__name__.rsplit(".", 1)[1]
    for name, value in vars(module).items():
        if isinstance(value, type) and issubclass(value, base) and value is not base and name[0] != "_":
            assert f"cbdl.{short}.{name}" in TEXT, name


def test_engines_and_networks_are_in_the_reference():
    for name in ("Local", "Processes", "Ray"):
        assert hasattr(engines, name)
        assert f"cbdl.engines.{name}" in TEXT
    assert all(name in TEXT for name in nets.__all__)


IMPORTED = """
import importlib, sys, cbdl
# the two rooms within another come first, when nothing has been imported for them
cbdl.priors; cbdl.likelihoods; cbdl.CBDL; cbdl.engines.Ray; cbdl.plots.band
heavy = ["matplotlib", "fastapi", "ray", "pandas", "scipy", "pyarrow", "sklearn"]
print([name for name in heavy if name in sys.modules])
import cbdl.studies.pancreas
print("gymnasium" in sys.modules)
for name in sys.argv[1:]:
    for module in [m for m in sys.modules if m.split(".")[0] == "cbdl"]:
        del sys.modules[module]
    getattr(importlib.import_module("cbdl"), name)
"""


def test_importing_cbdl_imports_nothing_heavy_and_its_modules_come_in_any_order():
    """Modules are imported when they are asked for: none may need another one to have been asked for before. The
    pancreas study needs gymnasium for its environment only."""
    modules = [name for name in cbdl.__all__ if inspect.ismodule(getattr(cbdl, name))]
    assert {"likelihoods", "priors", "nets"} <= set(modules)
    run = subprocess.run(
        [sys.executable, "-c", IMPORTED, *modules], capture_output=True, text=True, check=True
    )
    assert run.stdout.split("\n")[:2] == ["[]", "False"]


RENAMED = """
from cbdl.priors import Normal
import cbdl.likelihoods as likelihoods, cbdl
print(Normal is cbdl.priors.Normal, likelihoods is cbdl.likelihoods)
"""


def test_rooms_within_another_can_be_imported_from():
    run = subprocess.run([sys.executable, "-c", RENAMED], capture_output=True, text=True, check=True)
    assert run.stdout == "True True\n"


SHOWN = {
    name: found
    for name, found in described.shown(PAGE)
    if not (
        inspect.isclass(found) and (issubclass(found, Exception) or getattr(found, "_is_protocol", False))
    )
}


def test_every_parameter_of_the_reference_is_described():
    assert [name for name, found in SHOWN.items() if not inspect.getdoc(found)] == []
    missing = {name: described.undescribed(found) for name, found in SHOWN.items()}
    assert {name: parameters for name, parameters in missing.items() if parameters} == {}


def test_the_test_of_parameters_finds_one_that_is_not_described():
    def one(alpha, beta, gamma, delta, other):
        """From `alpha` and gamma (n,) to a number.

        delta: the last of them
        """

    assert described.undescribed(one) == ["beta", "other"]
    assert len(SHOWN) > 250


WITHIN = {"Learned", "Family", "Plan", "Prior", "AsIs"}
"""What is handed on within the package, and what authors of parts find in CONTRIBUTING."""


def answers(found) -> set[type]:
    """The package's classes that a function or method says it answers with; of a class, its properties."""
    functions = [found]
    if inspect.isclass(found):
        functions = [v.fget for n, v in vars(found).items() if isinstance(v, property) and n[0] != "_"]
    said = set[type]()
    for function in functions:
        words = str(getattr(function, "__annotations__", {}).get("return", ""))
        own = [vars(inspect.getmodule(function)).get(w) for w in re.findall(r"\w+", words)]
        said |= {v for v in own if inspect.isclass(v) and v.__module__.startswith("cbdl.")}
    return said


def test_whatever_is_answered_with_is_in_the_reference_too():
    shown = set(SHOWN.values()) | {found for _, found in described.shown(PAGE) if inspect.isclass(found)}
    gone = {(v.__qualname__, n) for n, f in SHOWN.items() for v in answers(f) if v not in shown}
    assert {pair for pair in gone if pair[0] not in WITHIN} == set()
    assert Diagnostics in answers(cbdl.CBDL.diagnostics)
    assert Plausibility in answers(cbdl.CBDL)


def test_private_parameters_are_not_shown():
    signature = "(mask, gap, _mask, _border=None, labels=None)"
    assert described.show_signature(None, "class", "", None, None, signature, None) == (
        "(mask, gap, labels=None)",
        None,
    )


def test_bullets_and_fields_are_shown_as_parameters():
    lines = ["What it is.", "", "- `a`, `b`: words", "  and more", "- `c`: other", "", ">>> 1"]
    shown = described.as_fields([*lines, "d, e:  (n,) numbers", "       of them", "f: no"], "abcde")
    assert ":param e: (n,) numbers of them" in shown
    assert "f: no" in shown
    assert ":param a: words and more" in shown
    assert ":param b: words and more" in shown
    assert ":param c: other" in shown
    assert ">>> 1" in shown
    assert "rows of a step" in described.fields(cbdl.MeanField)["batch_size"].lower()


WITHOUT_EXAMPLE = {
    # what functions answer with: the examples are theirs
    *(
        "Array",
        "Averaged",
        "Background",
        "Certified",
        "Decalibration",
        "Decomposition",
        "Detection",
        "Estimate",
    ),
    *("LabelCoverage", "Rejection", "Reliability", "Saved", "DataSet", "Completed", "Completions"),
    # what is there to be written by others, and what engines are made of
    *("Likelihood", "Prior", "Origin", "Engine", "Method", "Encoder", "Net", "Coordinates", "Auto", "Task"),
    *("check_engine", "crew_kept", "tasks", "train", "without_folds", "agree", "check_scale", "hull"),
    *("input_quantiles", "completions", "complete", "quantile_choices"),
    # the network, a file of megabytes, a server, or a model with chains: the guides have them
    *("fetch", "read_cifar", "read_svhn", "application", "of_images", "run", "rhat", "available"),
}


CALLED = ("CBDL", "CredalClassifier", "CredalRegressor", "CategoricalCredalSet", "IntervalCredalSet")
CALLED += ("NormalCredalSet", "MixtureCredalSet", "DiagonalNormalCredalSet")


@pytest.mark.parametrize("name", CALLED)
def test_every_method_that_a_user_calls_is_in_an_example(name):
    """In its own docstring or in that of a class: there all questions are asked of one set, or of one model."""
    cls = getattr(cbdl, name)
    # what comes from elsewhere has its examples there
    kin = [base for base in cls.__mro__ if base.__module__.startswith("cbdl.")]
    own = {n: v for base in kin for n, v in vars(base).items() if n[0] != "_" and inspect.isroutine(v)}
    line = cbdl.NormalCredalSet if name == "MixtureCredalSet" else None  # the same methods, asked of it
    words = [v.__doc__ or "" for v in (*kin, *own.values(), *([line] if line else []))]
    asked = set(
        re.findall(r"\.(\w+)\(", "\n".join(re.findall(r"^ *(?:>>>|\.\.\.) .*$", "\n".join(words), re.M)))
    )
    # of predictions only: in the example of CBDL; what models call; what scikit-learn adds
    others = {"decomposition", "with_origin", "set_fit_request", "set_score_request"}
    assert sorted(own.keys() - asked - others) == []


def test_whatever_a_user_calls_has_an_example():
    rooms = [cbdl, constructions, credal, data, engines, evaluate, likelihoods, nets, plots, priors, serve]
    rooms += [cbdl.baselines, cbdl.memory, cbdl.missing]
    without = set()
    for room in rooms:
        own = [n for n, v in vars(room).items() if getattr(v, "__module__", "").startswith(room.__name__)]
        for name in getattr(room, "__all__", own):
            value = getattr(room, name)
            is_error = inspect.isclass(value) and issubclass(value, Exception)
            if name[0] != "_" and (inspect.isclass(value) or inspect.isfunction(value)) and not is_error:
                without |= {name} if ">>>" not in (value.__doc__ or "") else set()
    assert without <= WITHOUT_EXAMPLE, f"without an example: {sorted(without - WITHOUT_EXAMPLE)}"
    assert without >= WITHOUT_EXAMPLE, f"has an example now: {sorted(WITHOUT_EXAMPLE - without)}"
