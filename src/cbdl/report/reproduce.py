"""How to reproduce a report: the command, the versions, the machine."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from cbdl.report.page import Block, Code, Section, Table

PACKAGES = ("cbdl", "torch", "numpy", "scipy", "scikit-learn", "matplotlib")


def reproduction(command: str, settings: Mapping[str, object] | None = None) -> Section:
    """The last section of a report: what to type, what it depends on, with which versions it was made."""
    rows = [*((name, str(value)) for name, value in (settings or {}).items()), *_versions()]
    blocks: list[Block] = [
        "The same command on the same machine gives the same numbers; on another one they are equal to rounding, and "
        "trainings to what chaos makes of it.",
        Code(command),
        Table("Settings and versions", ("what", "value"), rows),
    ]
    return Section("How to reproduce", blocks)


def _versions() -> list[tuple[str, str]]:
    known = []
    for name in PACKAGES:
        try:
            known.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return [
        *known,
        ("Python", platform.python_version()),
        ("machine", f"{platform.system()} {platform.machine()}"),
    ]
