"""The training loop that gradient methods share: steps, schedule, clipping, early stopping, failures,
checkpoints.

Everything about a member depends on that member only: its gradient is clipped by its own norm, it stops early
by its own validation score, and a member whose loss is no longer finite is set aside while the others go on.
"""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Protocol

import torch
from torch import Tensor

from .forward import Buffers
from .plan import Plan, Record, Run
from .progress import progress
from .rows import Batch, Data, TrainingData

__all__ = [
    "Adam",
    "Interrupted",
    "Optimiser",
    "Plan",
    "Record",
    "Run",
    "Stop",
    "Trainee",
    "Training",
    "TrainingWarning",
    "train",
]


class TrainingWarning(UserWarning):
    """Something about the training that its user should know."""


class Interrupted(KeyboardInterrupt):
    """Training was stopped at a step boundary; the message says how to go on."""


class Trainee(Protocol):
    """What is trained. Tensors lead with the members' axis; `variables` is changed in place."""

    variables: Tensor
    """(members, L): everything that is optimised, as one tensor."""
    buffers: Buffers

    def gradient(self, batch: Batch, step: int, steps: int) -> tuple[Tensor, Tensor]:
        """The loss (members,) and its gradient (members, L)."""
        ...

    def validate(self, data: Data) -> Tensor:
        """The score on validation data (members,), lower is better."""
        ...


class Adam:
    """Adam on one tensor (members, L); members do not meet."""

    def __init__(
        self, variables: Tensor, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ) -> None:
        self.betas, self.eps = betas, eps
        self.state = {"first": torch.zeros_like(variables), "second": torch.zeros_like(variables)}
        self._work = torch.empty_like(variables)

    def step(self, variables: Tensor, gradient: Tensor, rate: float, step: int) -> None:
        """One update in place; `step` counts from 0."""
        a, b = self.betas
        first, second, work = self.state["first"], self.state["second"], self._work
        first.lerp_(gradient, 1 - a)
        second.mul_(b).addcmul_(gradient, gradient, value=1 - b)
        torch.sqrt(second, out=work)
        # eps is added to the bias-corrected root, as in the paper of Adam
        root = math.sqrt(1 - b ** (step + 1))
        work.add_(self.eps * root)
        variables.addcdiv_(first, work, value=-rate * root / (1 - a ** (step + 1)))


class Optimiser(Protocol):
    state: dict[str, Tensor]

    def step(self, variables: Tensor, gradient: Tensor, rate: float, step: int) -> None: ...


class Training:
    """One run of the loop: the state that a checkpoint holds, and the steps that change it."""

    def __init__(
        self,
        trainee: Trainee,
        data: TrainingData,
        plan: Plan,
        run: Run,
        fingerprint: dict[str, str],
        optimiser: Optimiser,
    ) -> None:
        self.trainee, self.data, self.plan, self.run = trainee, data, plan, run
        self.optimiser, self.fingerprint = optimiser, fingerprint
        self.per_epoch = data.steps(plan.batch_size)
        self.steps = plan.epochs * self.per_epoch
        self.step = 0
        members, v = trainee.variables.shape[0], trainee.variables
        self.failures: dict[int, str] = {}
        nothing = torch.full((plan.epochs, members), math.nan, dtype=torch.float64)
        self.kept: dict[str, Tensor] = {
            "loss": nothing,
            "score": nothing.clone(),
            "sum": v.new_zeros(members),
            "best": v.new_full((members,), math.inf),
            "waited": torch.zeros(members, dtype=torch.int64),
            "epochs": torch.zeros(members, dtype=torch.int64),
            "held": v.clone(),
        }
        self.kept |= {f"held.{n}": b.clone() for n, b in trainee.buffers.items()}

    # ------------------------------------------------------------------------------------------- the loop

    def go(self) -> Record:
        """All steps that are left, then the best of each member in its place."""
        self._restore()
        label = self.run.label
        stop = Stop(self.run.stop)
        with stop, progress(self.run.verbose, label, self.steps, self.plan.epochs) as shown:
            while self.step < self.steps and not self._finished():
                epoch, start = divmod(self.step, self.per_epoch)
                for batch in self.data.epoch(self.run.seed, epoch, self.plan.batch_size, start):
                    loss = self._one(batch)
                    self.step += 1
                    if self.step % self.per_epoch == 0:
                        self._end_epoch(epoch)
                    if shown.due(self.step == self.steps):
                        shown.update(self.step, epoch, float(loss.nanmean()))
                    self._between_steps(stop)
            self._save()
        return self._result()

    def _one(self, batch: Batch) -> Tensor:
        trainee, plan = self.trainee, self.plan
        loss, gradient = trainee.gradient(batch, self.step, self.steps)
        # one number tells whether all is well; who is to blame is asked only when it is not
        if self.failures or not math.isfinite(float(gradient.sum() + loss.sum())):
            self._set_aside(batch, loss, gradient, gradient.norm(dim=1))
        if plan.clip is not None:
            norm = gradient.norm(dim=1).clamp_min(1e-30)
            gradient.mul_((plan.clip / norm).clamp(max=1).unsqueeze(1))
        self.optimiser.step(trainee.variables, gradient, plan.rate(self.step, self.steps), self.step)
        self.kept["sum"] += loss
        return loss

    def _end_epoch(self, epoch: int) -> None:
        kept, trainee = self.kept, self.trainee
        kept["loss"][epoch] = (kept["sum"] / self.per_epoch).cpu().double()
        kept["sum"].zero_()
        going = self._going()
        kept["epochs"][going] = epoch + 1
        if self.data.validation is None:
            return
        score = trainee.validate(self.data.validation)
        kept["score"][epoch] = score.cpu().double()
        better = (score < kept["best"]).cpu() & going
        kept["best"] = torch.where(better.to(score.device), score, kept["best"])
        kept["waited"] = torch.where(better, 0, kept["waited"] + going.long())
        self._hold(better)

    def _hold(self, places: Tensor) -> None:
        """Keep the present state of the members `places` (bool) as the one that counts."""
        places = places.to(self.trainee.variables.device)
        if bool(places.any()):
            self.kept["held"][places] = self.trainee.variables[places]
            for name, b in self.trainee.buffers.items():
                self.kept[f"held.{name}"][places] = b[places]

    def _going(self) -> Tensor:
        """Members (bool) that have neither failed nor stopped early."""
        going = torch.ones(self.trainee.variables.shape[0], dtype=torch.bool)
        going[list(self.failures)] = False
        if self.plan.patience is not None and self.data.validation is not None:
            going &= self.kept["waited"] < self.plan.patience
        return going

    def _finished(self) -> bool:
        return self.step % self.per_epoch == 0 and not bool(self._going().any())

    def _result(self) -> Record:
        kept, trainee = self.kept, self.trainee
        failed = torch.zeros(trainee.variables.shape[0], dtype=torch.bool)
        failed[list(self.failures)] = True
        early = self.plan.patience is not None and self.data.validation is not None
        # without early stopping the last state counts, except for members that failed
        back = (failed | torch.isfinite(kept["best"]).cpu()) if early else failed
        places = back.to(trainee.variables.device)
        trainee.variables[places] = kept["held"][places]
        for name, b in trainee.buffers.items():
            b[places] = kept[f"held.{name}"][places]
        return Record(kept["loss"], kept["score"], dict(self.failures), kept["epochs"].clone())

    # ------------------------------------------------------------------------------------------- failures

    def _set_aside(self, batch: Batch, loss: Tensor, gradient: Tensor, norm: Tensor) -> None:
        """Members whose loss or gradient is not finite stop here, with their last finite state."""
        bad = ~(torch.isfinite(norm) & torch.isfinite(loss))
        for i in bad.nonzero().flatten().tolist():
            if i in self.failures:
                continue
            self.failures[i] = self._cause(i, batch, loss, norm)
            warnings.warn(self.failures[i], TrainingWarning, stacklevel=2)
            if i not in self._stopped_early():
                self._hold(torch.arange(loss.shape[0]) == i)
        places = list(self.failures)
        gradient[places], loss[places], norm[places] = 0.0, math.nan, 0.0
        # a state that is still finite: its batch must go on giving numbers, though nobody will look at them
        self.trainee.variables[places] = self.kept["held"][places]
        for name, b in self.trainee.buffers.items():
            b[places] = self.kept[f"held.{name}"][places]

    def _stopped_early(self) -> set[int]:
        return set((~self._going()).nonzero().flatten().tolist()) - set(self.failures)

    def _cause(self, i: int, batch: Batch, loss: Tensor, norm: Tensor) -> str:
        epoch, number = divmod(self.step, self.per_epoch)
        what = f"loss {float(loss[i]):g}" if not math.isfinite(float(loss[i])) else "an infinite gradient"
        largest = float(batch.x.abs().max()) if batch.x.is_floating_point() else 0.0
        if largest > 1e3:
            cause = f"inputs as large as {largest:.3g}: standardise them"
        elif self.plan.rate(self.step, self.steps) > 0.05:
            cause = f"a learning rate of {self.plan.rate(self.step, self.steps):.3g}: lower it"
        elif self.plan.clip is None:
            cause = "exploding gradients: lower the learning rate or set clip=1.0"
        else:
            cause = "a network that gives no number for these inputs, or a prior that is far too wide"
        who = f"({self.run.names[i]})" if self.run.names else f"{i} ({self.run.label})"
        return (
            f"member {who} was stopped at step {self.step} (epoch {epoch}, batch "
            f"{number}): {what}. "
            f"Likely cause: {cause}. Its last finite state is kept; the other members go on"
        )

    # ----------------------------------------------------------------------------------------- checkpoints

    def _between_steps(self, stop: Stop) -> None:
        point = self.run.checkpoint
        if stop.asked():
            self._save()
            raise Interrupted(
                f"{self.run.label}: stopped after step {self.step} of {self.steps}. "
                + (
                    f"The state is saved in {point.path}; make the same call again to go on."
                    if point
                    else "Nothing was saved; give checkpoint_dir to be able to go on."
                )
            )
        if point is not None and point.due(self.step):
            self._save()

    def _state(self) -> dict[str, Tensor]:
        """Everything that a checkpoint holds, by name; not copies."""
        return {
            "variables": self.trainee.variables,
            **{f"buffer.{n}": b for n, b in self.trainee.buffers.items()},
            **{f"optimiser.{n}": b for n, b in self.optimiser.state.items()},
            **{f"kept.{n}": b for n, b in self.kept.items()},
        }

    def _save(self) -> None:
        if self.run.checkpoint is None:
            return
        failures = {str(i): message for i, message in self.failures.items()}
        meta = {"step": self.step, "failures": failures}
        self.run.checkpoint.save(self._state(), meta, self.fingerprint)

    def _restore(self) -> None:
        point, state = self.run.checkpoint, self._state()
        saved = None if point is None else point.load(self.fingerprint, state)
        if point is None or saved is None:
            return
        tensors, meta = saved
        step, failures = meta.get("step"), meta.get("failures")
        if type(step) is not int or not 0 <= step <= self.steps:
            raise point.refuse(f"its step is {step!r}, not one of 0 to {self.steps}")
        members = {str(i) for i in range(self.trainee.variables.shape[0])}
        if not isinstance(failures, dict) or not failures.keys() <= members:
            raise point.refuse("the members that failed are not members of this run")
        self.step, self.failures = step, {int(i): str(message) for i, message in failures.items()}
        for name, x in state.items():
            x.copy_(tensors[name])


def train(
    trainee: Trainee,
    data: TrainingData,
    plan: Plan,
    run: Run,
    fingerprint: dict[str, str],
    optimiser: Optimiser | None = None,
) -> Record:
    """Train until the plan is done; `trainee` then holds the result. Goes on from the checkpoint if there is
    one.
    """
    marks: dict[str, str] = {}
    if run.checkpoint is not None:
        whole: dict[str, Any] = {**asdict(plan), "seed": run.seed}
        marks = {**fingerprint, "plan": repr(sorted(whole.items())), "data": data.digest}
    with torch.no_grad():
        chosen = optimiser if optimiser is not None else Adam(trainee.variables)
        return Training(trainee, data, plan, run, marks, chosen).go()


class Stop:
    """Ctrl-C asks for a stop at the next step boundary; a second Ctrl-C is an ordinary one."""

    def __init__(self, ask: Callable[[], bool] | None) -> None:
        self.ask, self.pressed = ask, False
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Stop:
        self._stack.enter_context(self._listening())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread may listen; elsewhere `ask` is the way
            return
        before = signal.getsignal(signal.SIGINT)

        def press(number: int, frame: object) -> None:
            self.pressed = True
            signal.signal(signal.SIGINT, before)

        signal.signal(signal.SIGINT, press)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def asked(self) -> bool:
        return self.pressed or (self.ask is not None and self.ask())
