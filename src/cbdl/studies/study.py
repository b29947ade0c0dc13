"""What a study is: a name, profiles of different length, and parts that are shown, written and printed as JSON.

Every module of `cbdl.studies` that is listed in `NAMES` has a `STUDY`. The command line runs it:
`cbdl study NAME --profile smoke --out DIR`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from cbdl.studies import report
from cbdl.studies.part import Part
from cbdl.tables.files import UsageError

Profile = Literal["smoke", "cpu", "paper"]
"""Under a minute, for the tests; as long as two cores need for sound numbers; the paper's own settings."""
NAMES = ("demo", "images", "methods", "pancreas", "racing", "tables")
"""The studies, each a module of `cbdl.studies`."""


@dataclass(frozen=True)
class Context:
    """What surrounds one run: its profile, its seed, where results may be cached, and who hears of progress."""

    profile: Profile
    seed: int
    folder: Path | None
    note: Callable[[str], None]
    only: tuple[str, ...] = ()
    """Which of the study's `choices` are asked for; empty: all."""
    track: str | None = None
    """The race track that the user names: a file, a folder, or a name; None: the study's own."""
    seeds: int | None = None
    """How many seeds the user asks for; None: as many as the profile has."""

    def repetitions(self, own: int) -> range:
        """The seeds of a run, from `seed` on; `own` are as many as the profile has."""
        return range(self.seed, self.seed + (own if self.seeds is None else self.seeds))

    def wants(self, name: str) -> bool:
        """Whether `name` is asked for."""
        return not self.only or name in self.only


@dataclass(frozen=True)
class Study:
    """A study: `parts` yields each part as soon as it is there."""

    name: str
    summary: str
    profiles: tuple[Profile, ...]
    parts: Callable[[Context], Iterator[Part]]
    choices: tuple[str, ...] = ()
    """What a run may be confined to, by name."""
    on_a_track: bool = False
    """Whether the user may name a race track."""
    repeated: bool = False
    """Whether it is run with several seeds, and tells the spread over them."""


def find(name: str) -> Study:
    """The study `name`; a UsageError that lists the others if there is none."""
    if name not in NAMES:
        raise UsageError(f"there is no study {name!r}; there are {', '.join(NAMES)}")
    study: Study = import_module(f"cbdl.studies.{name}").STUDY
    return study


def run(
    study: Study,
    profile: Profile,
    out: str | Path | None,
    seed: int = 0,
    note: Callable[[str], None] = lambda text: None,
    show: Callable[[Part], None] = lambda part: None,
    only: Sequence[str] = (),
    track: str | None = None,
    seeds: int | None = None,
) -> dict[str, Any]:
    """All parts one after the other, each shown as soon as it is there; then the report in the folder `out`.

    Returns the numbers of every part. `note` hears what is being done; `only` picks some of the study's choices;
    `track` names the race track of a study that is run on one; `seeds` is how many seeds a study that is repeated has.
    """
    if profile not in study.profiles:
        raise UsageError(
            f"{study.name} has no profile {profile!r}; it has {', '.join(map(repr, study.profiles))}"
        )
    _check_choices(study, only)
    if track is not None and not study.on_a_track:
        raise UsageError(
            f"track is {track!r}, but {study.name} is not run on a race track; leave --track out"
        )
    if seeds is not None and not study.repeated:
        raise UsageError(f"seeds is {seeds}, but {study.name} is run with one seed; leave --seeds out")
    folder = None if out is None else Path(out)
    if folder is not None:
        report.check(folder)
    parts: list[Part] = []
    for part in study.parts(Context(profile, seed, folder, note, tuple(only), track, seeds)):
        parts.append(part)
        show(part)
    if folder is not None:
        settings = {"study": study.name, "profile": profile, "seed": seed}
        command = _command(study, profile, folder, seed, only, seeds)
        page = report.write(folder, study.summary, parts, note, command, settings)
        note(f"\nReport: {page}")
    return {part.name: part.numbers for part in parts}


def _command(
    study: Study, profile: Profile, folder: Path, seed: int, only: Sequence[str], seeds: int | None
) -> str:
    """What to type for the same report."""
    some = f" --only {','.join(only)}" if only else ""
    some += "" if seeds is None else f" --seeds {seeds}"
    return f"cbdl study {study.name} --profile {profile} --seed {seed}{some} --out {shlex.quote(folder.name)}"


def _check_choices(study: Study, only: Sequence[str]) -> None:
    unknown = [name for name in only if name not in study.choices]
    if unknown and not study.choices:
        raise UsageError(f"only is {unknown[0]!r}, but {study.name} runs as a whole")
    if unknown:
        raise UsageError(f"{study.name} has no {unknown[0]!r}; only picks from {', '.join(study.choices)}")
