"""The default engine: cohorts one after the other in this process, all members of a cohort at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cbdl.bayes.checkpoint import Checkpoint
from cbdl.bayes.cohort import Cohort, Member
from cbdl.bayes.forward import Way
from cbdl.bayes.likelihoods import Likelihood
from cbdl.bayes.methods.protocol import Method, Posterior
from cbdl.bayes.priors import PriorLike
from cbdl.bayes.rows import TrainingData
from cbdl.bayes.train import Run

from .split import bring, split, together

__all__ = ["Local", "Method", "Task", "fit", "run_for", "tasks"]


@dataclass(frozen=True)
class Task:
    """One cohort, or a group of its members, to be trained anywhere: everything but the data."""

    priors: tuple[PriorLike, ...]
    likelihood: Likelihood
    s: int
    members: tuple[Member, ...]
    seed: int = 0
    trainable: tuple[str, ...] | None = None
    way: Way | None = None

    @property
    def name(self) -> str:
        """A file name for this group of members."""
        ks = [_spelled(m) for m in self.members]
        return f"likelihood-{self.s}-priors-{'-'.join(ks) if len(ks) <= 8 else ks[0] + '-to-' + ks[-1]}"

    def only(self, members: Iterable[Member]) -> Task:
        """The same with these members instead."""
        return replace(self, members=tuple(members))

    def cohort(self, data: TrainingData) -> Cohort:
        return Cohort.of(
            self.priors,
            self.likelihood,
            data,
            seed=self.seed,
            s=self.s,
            members=self.members,
            trainable=self.trainable,
            way=self.way,
        )


def _spelled(member: Member) -> str:
    """The member's prior, its chain and its fold, as they are told apart in a file name."""
    chain = f"c{member.chain}" if member.chain else ""
    return f"{member.k}{chain}{'' if member.fold is None else f'f{member.fold}'}"


def tasks(
    priors: Sequence[PriorLike],
    likelihoods: Sequence[Likelihood],
    *,
    seed: int = 0,
    trainable: Sequence[str] | None = None,
) -> list[Task]:
    """One task for each likelihood, with all K members."""
    return [
        Task(
            tuple(priors),
            likelihood,
            s,
            tuple(Member.of(seed, k, s) for k in range(len(priors))),
            seed,
            None if trainable is None else tuple(trainable),
        )
        for s, likelihood in enumerate(likelihoods)
    ]


def run_for(task: Task, run: Run, directory: Path | str | None, every_seconds: float = 60.0) -> Run:
    """`run` with the label, the members' names and the checkpoint file of `task`."""
    own = replace(
        run,
        label=f"likelihood {task.s}, {len(task.members)} member{'' if len(task.members) == 1 else 's'}",
        names=tuple(map(str, task.members)),
        seed=task.seed,
    )
    if directory is None:
        return own
    return replace(own, checkpoint=Checkpoint(Path(directory) / f"{task.name}.safetensors", every_seconds))


def fit(
    todo: Sequence[Task],
    data: TrainingData,
    method: Method,
    run: Run,
    *,
    checkpoint_dir: Path | str | None = None,
    every_seconds: float = 60.0,
) -> list[tuple[Cohort, Posterior]]:
    """Train every task; one (cohort, posterior) each, in order. All cohorts are built, and so checked, before
    any trains.
    """
    cohorts = [task.cohort(data) for task in todo]
    return [
        (cohort, method.fit(cohort, data, run_for(task, run, checkpoint_dir, every_seconds)))
        for task, cohort in zip(todo, cohorts, strict=True)
    ]


@dataclass(frozen=True)
class Local:
    """This process: cohorts one after the other, with all threads that torch may use.

    >>> import cbdl
    >>> likelihoods = [cbdl.likelihoods.Categorical(cbdl.nets.mlp(2, 2))]
    >>> cbdl.CBDL([cbdl.priors.Normal(0, 1)], likelihoods, engine=Local()).engine
    Local()
    """

    def train(
        self,
        todo: Sequence[Task],
        data: TrainingData,
        method: Method,
        run: Run,
        *,
        checkpoint_dir: Path | str | None = None,
        every_seconds: float = 60.0,
    ) -> list[tuple[Cohort, Posterior]]:
        """Train every task; one (cohort, posterior) each, in order."""
        parts = split(todo, 1, checkpoint_dir)
        pieces = fit(
            [part.task(todo) for part in parts],
            data,
            method,
            run,
            checkpoint_dir=checkpoint_dir,
            every_seconds=every_seconds,
        )
        if len(pieces) == len(todo):
            return pieces
        # a run that another engine has begun is finished in the groups it was begun with
        cohorts = [task.cohort(data) for task in todo]
        trained = [bring(posterior) for _, posterior in pieces]
        return [
            (c, together(method, c, [t for t, g in zip(trained, parts, strict=True) if g.cohort == i]))
            for i, c in enumerate(cohorts)
        ]
