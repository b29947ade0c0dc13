"""How the work of several cohorts is split into groups of members, and how what was learned is put together.

Members do not meet in training, so any split gives the same posteriors up to rounding. A run with a checkpoint
directory writes its split there, and whoever continues the run keeps to it, with as many workers as there are
then: the checkpoints of the groups stay useful and the tensors stay the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cbdl.bayes.checkpoint import CheckpointError
from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.methods.protocol import Method, Posterior
from cbdl.bayes.train import Record
from cbdl.ground import files

if TYPE_CHECKING:
    from .local import Task

FILE = "groups.json"
FORMAT = "cbdl-groups-1"


@dataclass(frozen=True)
class Group:
    """Members of one cohort that are trained together: cohort number `cohort`, members `start` to `stop`."""

    cohort: int
    start: int
    stop: int

    def task(self, todo: Sequence[Task]) -> Task:
        whole = todo[self.cohort]
        return whole.only(whole.members[self.start : self.stop])

    def label(self, todo: Sequence[Task]) -> str:
        """How a person calls this group: "likelihood 0, priors 2 to 3"."""
        members = self.task(todo).members
        first, last = members[0].k, members[-1].k
        which = f"prior {first}" if len(members) == 1 else f"priors {first} to {last}"
        return f"likelihood {members[0].s}, {which}"


@dataclass(frozen=True)
class Trained:
    """What a group brings home: the posterior's state (every tensor leads with the members) and its record."""

    state: dict[str, Tensor]
    record: Record | None


def groups(sizes: Sequence[int], workers: int) -> list[Group]:
    """One group a cohort or, with more workers than cohorts, one group a worker, as even as it gets.

    >>> [(g.cohort, g.start, g.stop) for g in groups([4, 2], 1)]
    [(0, 0, 4), (1, 0, 2)]
    >>> [(g.cohort, g.start, g.stop) for g in groups([4, 2], 4)]
    [(0, 0, 2), (0, 2, 3), (0, 3, 4), (1, 0, 2)]
    """
    counts = [1] * len(sizes)
    while sum(counts) < min(workers, sum(sizes)):
        # one more group for the cohort whose largest group is the largest of all
        largest = [-(-size // count) for size, count in zip(sizes, counts, strict=True)]
        counts[largest.index(max(largest))] += 1
    parts = []
    for cohort, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        bounds = [-(-size * i // count) for i in range(count + 1)]
        parts += [Group(cohort, a, b) for a, b in pairwise(bounds)]
    return parts


def split(todo: Sequence[Task], workers: int, directory: Path | str | None = None) -> list[Group]:
    """The groups of `todo` for so many workers; the ones that `directory` remembers, if it does."""
    sizes = [len(task.members) for task in todo]
    if directory is None:
        return groups(sizes, workers)
    path = Path(directory) / FILE
    if path.exists():
        return _remembered(path, todo)
    parts = groups(sizes, workers)
    try:
        files.write(path, json.dumps({"format": FORMAT, "groups": [_names(g.task(todo)) for g in parts]}))
    except OSError as error:
        raise CheckpointError(f"cannot write {path}: {error.strerror or error}") from error
    return parts


def _names(task: Task) -> list[list[int]]:
    return [_name(m) for m in task.members]


def _name(member: Member) -> list[int]:
    own = [member.k, member.s]
    if member.chain or member.fold is not None:
        own += [member.chain, -1 if member.fold is None else member.fold]
    return own


def _remembered(path: Path, todo: Sequence[Task]) -> list[Group]:
    try:
        content = json.loads(path.read_text())
        saved = [[tuple(member) for member in group] for group in content["groups"]]
        known = content["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"cannot read {path} ({error}). Delete the directory to start again, or use another one"
        ) from error
    parts, position = [], 0
    members = [[tuple(_name(m)) for m in task.members] for task in todo]
    for cohort, own in enumerate(members):
        start = 0
        while position < len(saved) and start < len(own) and saved[position]:
            stop = start + len(saved[position])
            if saved[position] != own[start:stop]:
                break
            parts.append(Group(cohort, start, stop))
            position, start = position + 1, stop
        known = known and start == len(own)
    if not known or position != len(saved):
        raise CheckpointError(
            f"{path.parent} belongs to another run: its members are not the {sum(map(len, members))} of this one. "
            "Use another directory, or delete it to start again; it was left as it is"
        )
    return parts


# ------------------------------------------------------------------------------------------------ together


def bring(posterior: Posterior) -> Trained:
    """What is needed to build `posterior` again elsewhere."""
    return Trained(posterior.state(), posterior.record)


def together(method: Method, cohort: Cohort, parts: Sequence[Trained]) -> Posterior:
    """One posterior for the whole cohort from those of its groups, in the order of the members."""
    device = cohort.initial.device
    names = parts[0].state
    state = {name: torch.cat([part.state[name].to(device) for part in parts]) for name in names}
    records = [part.record for part in parts if part.record is not None]
    joined = type(records[0]).join(records) if len(records) == len(parts) else None
    return method.from_state(cohort, state).with_record(joined)
