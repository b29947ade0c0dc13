"""What the reference says of parameters: which there are on the page, and where each is described.

A parameter is described by the docstring of its function or class, which speaks of it (`mentioned`), or, in a
dataclass, by the string below the field. When the page is built, bullets, definitions ("name: ...") and such strings
become a list with types. Names with an underscore are nobody's business.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

ENTRY = re.compile(r"^\.\. auto(class|function|module):: (\S+)\n((?: +:.*\n)*)", re.M)


def resolve(name: str) -> Any:
    """The object that a page names; a function goes before a module of the same name."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    return importlib.import_module(name)


def shown(page: Path) -> Iterator[tuple[str, Callable[..., Any]]]:
    """(name, callable) of everything on the page that has parameters: functions, classes and their methods."""
    for kind, name, options in ENTRY.findall(page.read_text()):
        members = re.search(r":members:(.*)", options)
        found = importlib.import_module(name) if kind == "module" else resolve(name)
        if kind != "module":
            yield name, found
        if members is not None and kind != "function":
            stop = re.search(r":inherited-members:(.*)", options)
            homes = [found] if stop is None else inherited(found, stop[1].strip())
            wanted = members[1].replace(",", " ").split() or [n for home in homes for n in public(home)]
            for member in dict.fromkeys(wanted):
                value = inspect.getattr_static(found, member)
                if callable(value) or isinstance(value, classmethod | staticmethod):
                    yield f"{name}.{member}", getattr(found, member)


def public(found: Any) -> list[str]:
    """The members of a class or module that a page shows by default: its own, with words to them."""
    return [
        n for n, v in vars(found).items() if not n.startswith("_") and inspect.getdoc(getattr(found, n, v))
    ]


def inherited(cls: type, stop: str) -> list[type]:
    """The class and those of its bases in this package whose members a page shows with it: up to `stop`."""
    names = [base.__name__ for base in cls.__mro__]
    own = cls.__mro__[: names.index(stop) if stop else None]
    return [base for base in own if base.__module__.split(".")[0] == cls.__module__.split(".")[0]]


def fields(cls: type) -> dict[str, str]:
    """Of a dataclass: the strings below its fields and those of its bases."""
    words = dict[str, str]()
    for base in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        [own] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(own, ast.ClassDef)
        for field, below in zip(own.body, own.body[1:], strict=False):
            match field, below:
                case (ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text)))):
                    words[name] = " ".join(text.split())
    return words


def mentioned(name: str, words: str) -> bool:
    """Whether a docstring speaks of a parameter: `name` in backticks, "name: ...", or with its shape, "name (n,)"."""
    if re.search(rf"(?:^|; )\s*(?:\w+, )*{name}(?:, \w+)*:\s", words, re.M):
        return True
    if re.search(rf"\b{name} \((?:\.\.\.|\w+,|\w+\))", words):
        return True
    spoken = re.findall(r"`([^`]+)`", words.replace("``", ""))
    return any(re.search(rf"\b{name}\b", code) for code in spoken)


def undescribed(found: Callable[..., Any]) -> list[str]:
    """The parameters that nothing describes."""
    words, below = inspect.getdoc(found) or "", dict[str, str]()
    if inspect.isclass(found):
        words += "\n" + (inspect.getdoc(found.__init__) or "")
        below = fields(found)
    names = [p for p in inspect.signature(found).parameters if p not in ("self", "cls") and p[0] != "_"]
    return [name for name in names if name not in below and not mentioned(name, words)]


ENTRIES = (
    re.compile(r"- ((?:`\w+`, )*`\w+`)(?: [^:`]*)?: (.*)"),
    re.compile(r"((?:\w+, )*\w+): +(\S.*)"),
)
"""How a docstring speaks of parameters: "- `alpha`: ..." and "alpha: ..."."""


def as_fields(lines: list[str], names: Collection[str]) -> list[str]:
    """A docstring's entries about parameters as field lists, which pages show with types."""
    words, rest, spoken = dict[str, str](), list[str](), list[str]()
    for line in lines:
        entry = next((found for kind in ENTRIES if (found := kind.match(line))), None)
        own = re.findall(r"\w+", entry[1]) if entry else []
        if entry and set(own) <= set(names):
            spoken = own
            words |= dict.fromkeys(own, entry[2])
        elif spoken and line.startswith("  "):
            words |= {name: f"{words[name]} {line.strip()}" for name in spoken}
        else:
            rest.append(line)
            spoken = []
    return [*rest, "", *(f":param {name}: {text}" for name, text in words.items()), ""]


def show_parameters(app: object, what: str, name: str, found: Any, options: object, lines: list[str]) -> None:
    """For `autodoc-process-docstring`: parameters as fields, those of a dataclass from below its fields."""
    if what not in ("class", "function", "method"):
        return
    try:
        names = [p for p in inspect.signature(found).parameters if p != "self"]
    except (ValueError, TypeError):
        return
    made = as_fields(lines, names)
    if what == "class":
        words = {field: text for field, text in fields(found).items() if field in names}
        made += [*(f":param {field}: {text}" for field, text in words.items()), ""]
    lines[:] = made


def show_signature(
    app: object, what: str, name: str, found: Any, options: object, signature: str | None, answer: str | None
) -> tuple[str | None, str | None]:
    """For `autodoc-process-signature`: without private parameters."""
    return signature and re.sub(r", _\w+(?:=[^,)]*)?(?=[,)])", "", signature), answer
