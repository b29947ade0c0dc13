"""The training loop that gradient methods share: steps, schedule, clipping, when to stop, failures,
checkpoints.

Everything about a member depends on that member only: its gradient is clipped by its own norm, its rate falls and it
stops by its own losses or validation scores, and a member whose loss is no longer finite is set aside while the others
go on.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict
from typing import Any, Protocol

import torch
from torch import Tensor

from . import advice
from .forward import Buffers
from .plan import REST, Plan, Record, Run
from .plateau import CAP, LEAST, LEAST_EPOCHS, LOOK, Plateau, still_improving
from .progress import progress
from .rows import Batch, Data, TrainingData
from .stop import Stop

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
        """The loss (members,) and its gradient (members, L).

        `steps`: what shares of the training (a warm-up) are of: all steps, or those before which no training is done.
        """
        ...

    def validate(self, data: Data) -> Tensor:
        """The score on validation data (members,), lower is better."""
        ...


class Adam:
    """Adam on one tensor (members, L); members do not meet."""

    def __init__(
        self,
        variables: Tensor,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        factors: Tensor | None = None,
    ) -> None:
        self.betas, self.eps = betas, eps
        self.factors = factors
        """What the rate of every member is multiplied by (members, 1); None: nothing."""
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
        move = -rate * root / (1 - a ** (step + 1))
        if self.factors is None:
            variables.addcdiv_(first, work, value=move)
        else:
            variables.addcmul_(torch.div(first, work, out=work), self.factors, value=move)

    def scales(self, step: int) -> Tensor:
        """Root mean squares of the slopes, after the update of `step`, in memory that the next update uses."""
        return torch.sqrt(self.state["second"], out=self._work).div_(
            math.sqrt(1 - self.betas[1] ** (step + 1))
        )


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
        optimiser: Optimiser | None = None,
    ) -> None:
        self.trainee, self.data, self.plan, self.run = trainee, data, plan, run
        self.fingerprint = fingerprint
        self.per_epoch = data.steps(plan.batch_size)
        self.epochs = plan.epochs or max(LEAST_EPOCHS, -(-CAP // self.per_epoch))
        """Epochs at most."""
        self.steps = self.epochs * self.per_epoch
        self.step = 0
        members, v = trainee.variables.shape[0], trainee.variables
        # a validation score is taken at the end of an epoch
        self.look = LOOK if data.validation is None else -(-LOOK // self.per_epoch) * self.per_epoch
        self.rule = Plateau(members, self.steps // self.look, v) if plan.epochs is None else None
        self.optimiser = optimiser or Adam(v, factors=None if self.rule is None else self.rule.factors)
        self.sampling = optimiser is not None
        self.rest = round((1 - REST) * self.steps)
        """The step after which members that are not done come to rest."""
        self.failures: dict[int, str] = {}
        nothing = torch.full((self.epochs, members), math.nan, dtype=torch.float64)
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
        if self.rule is not None:
            self.kept["look"] = v.new_zeros(members)

    # ------------------------------------------------------------------------------------------- the loop

    def go(self) -> Record:
        """All steps that are left, then the best of each member in its place."""
        self._restore()
        label = self.run.label
        stop = Stop(self.run.stop)
        with stop, progress(self.run.verbose, label, self.steps, self.epochs) as shown:
            while self.step < self.steps and not self._finished():
                epoch, start = divmod(self.step, self.per_epoch)
                for batch in self.data.epoch(self.run.seed, epoch, self.plan.batch_size, start):
                    loss = self._one(batch)
                    self.step += 1
                    if self.step % self.per_epoch == 0:
                        self._end_epoch(epoch)
                    if self.rule is not None and self.step % self.look == 0 and self.step <= self.rest:
                        self._look(self.rule, epoch)
                    if shown.due(self.step == self.steps):
                        shown.update(self.step, epoch, float(loss.nanmean()))
                    self._between_steps(stop)
                    if self._finished():
                        break
            self._save()
        self._tell_who_still_improves()
        return self._result()

    def _one(self, batch: Batch) -> Tensor:
        trainee, plan = self.trainee, self.plan
        shares = self.steps if self.rule is None else LEAST * self.look
        loss, gradient = trainee.gradient(batch, self.step, shares)
        # one number tells whether all is well; who is to blame is asked only when it is not
        if self.failures or not math.isfinite(float(gradient.sum() + loss.sum())):
            self._set_aside(batch, loss, gradient, gradient.norm(dim=1))
        if plan.clip is not None:
            norm = gradient.norm(dim=1).clamp_min(1e-30)
            gradient.mul_((plan.clip / norm).clamp(max=1).unsqueeze(1))
        self.optimiser.step(trainee.variables, gradient, plan.rate(self.step, self.steps), self.step)
        self.kept["sum"] += loss
        if self.rule is not None:
            self.kept["look"] += loss
        return loss

    def _end_epoch(self, epoch: int) -> None:
        kept = self.kept
        kept["loss"][epoch] = (kept["sum"] / self.per_epoch).cpu().double()
        kept["sum"].zero_()
        if self._nobody_stops():
            kept["epochs"].fill_(epoch + 1)
            return
        going = self._going()
        kept["epochs"][going] = epoch + 1
        if self.rule is None:
            self._validate(epoch, going)

    def _validate(self, epoch: int, going: Tensor) -> None:
        """Score the members on the validation data, if there are any, and hold those that are better than ever."""
        if self.data.validation is None:
            return
        kept = self.kept
        score = self.trainee.validate(self.data.validation)
        kept["score"][epoch] = score.cpu().double()
        better = (score < kept["best"]).cpu() & going
        kept["best"] = torch.where(better.to(score.device), score, kept["best"])
        kept["waited"] = torch.where(better, 0, kept["waited"] + going.long())
        self._hold(better)

    def _look(self, rule: Plateau, epoch: int) -> None:
        """Let the rule see the mean loss since its last look, or the validation score."""
        kept, going = self.kept, self._going()
        self._validate(epoch, going)
        seen = kept["score"][epoch] if self.data.validation is not None else kept["look"] / self.look
        done = rule.look(self.step // self.look - 1, seen, going)
        if self.data.validation is None:
            self._hold(done)
        kept["look"].zero_()

    def _hold(self, places: Tensor) -> None:
        """Keep the present state of the members `places` (bool) as the one that counts."""
        places = places.to(self.trainee.variables.device)
        if bool(places.any()):
            self.kept["held"][places] = self.trainee.variables[places]
            for name, b in self.trainee.buffers.items():
                self.kept[f"held.{name}"][places] = b[places]

    def _nobody_stops(self) -> bool:
        """Whether all members go on without a look at anyone: small networks take their steps in half a millisecond."""
        return not self.failures and self.rule is None and self.data.validation is None

    def _going(self) -> Tensor:
        """Members (bool) that have neither failed nor stopped early."""
        going = torch.ones(self.trainee.variables.shape[0], dtype=torch.bool)
        if self.failures:
            going[list(self.failures)] = False
        if self.rule is not None:
            going &= ~self.rule.done
        elif self.plan.patience is not None and self.data.validation is not None:
            going &= self.kept["waited"] < self.plan.patience
        return going

    def _finished(self) -> bool:
        when = self.per_epoch if self.rule is None else self.look
        if self.step % when or self._nobody_stops():
            return False
        return not bool(self._going().any())

    def _result(self) -> Record:
        kept, trainee = self.kept, self.trainee
        failed = torch.zeros(trainee.variables.shape[0], dtype=torch.bool)
        failed[list(self.failures)] = True
        scored = self.data.validation is not None
        if scored and (self.plan.patience is not None or self.rule is not None):
            back = failed | torch.isfinite(kept["best"]).cpu()
        else:  # the last state counts, except for members that failed or were done before
            back = failed if self.rule is None else failed | self.rule.done
        places = back.to(trainee.variables.device)
        trainee.variables[places] = kept["held"][places]
        for name, b in trainee.buffers.items():
            b[places] = kept[f"held.{name}"][places]
        epochs, left = -(-self.step // self.per_epoch), self.step % self.per_epoch
        loss = kept["loss"][:epochs].clone()
        if left:  # the epoch in which the last member was done
            loss[-1] = (kept["sum"] / left).cpu().double()
        return Record(loss, kept["score"][:epochs].clone(), dict(self.failures), kept["epochs"].clone())

    def _tell_who_still_improves(self) -> None:
        """Warn if the end of the training came before that of the improvement."""
        if self.sampling:
            return
        going = self._going()
        if self.rule is None:
            rates = [self.plan.rate(e, self.epochs) for e in range(self.epochs)]
            going = going & still_improving(self.kept["loss"], rates)
        else:
            going = going & self.rule.improving(self.rest // self.look)
        who = going.nonzero().flatten().tolist()
        if not who or self.step < self.steps:
            return
        words = advice.not_done(self.run, who, self.epochs, self.steps, fixed=self.rule is None)
        warnings.warn(words, TrainingWarning, stacklevel=3)

    # ------------------------------------------------------------------------------------------- failures

    def _set_aside(self, batch: Batch, loss: Tensor, gradient: Tensor, norm: Tensor) -> None:
        """Members whose loss or gradient is not finite stop here, with their last finite state."""
        bad = ~(torch.isfinite(norm) & torch.isfinite(loss))
        stopped, rate = self._stopped_early(), self.plan.rate(self.step, self.steps)
        epoch, number = divmod(self.step, self.per_epoch)
        when = f"step {self.step} (epoch {epoch}, batch {number})"
        for i in bad.nonzero().flatten().tolist():
            if i in self.failures or i in stopped:
                continue
            who, first = advice.member_name(self.run, i), self.step == 0
            self.failures[i] = advice.failure(
                who, when, float(loss[i]), batch.x, rate, self.plan.clip, first=first
            )
            warnings.warn(self.failures[i], TrainingWarning, stacklevel=2)
            self._hold(torch.arange(loss.shape[0]) == i)
        places = sorted({*self.failures, *(i for i in stopped if bool(bad[i]))})
        gradient[places], loss[places], norm[places] = 0.0, math.nan, 0.0
        # a state that is still finite: its batch must go on giving numbers, though nobody will look at them
        self.trainee.variables[places] = self.kept["held"][places]
        for name, b in self.trainee.buffers.items():
            b[places] = self.kept[f"held.{name}"][places]

    def _stopped_early(self) -> set[int]:
        return set((~self._going()).nonzero().flatten().tolist()) - set(self.failures)

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
            **({} if self.rule is None else {f"rule.{n}": b for n, b in self.rule.state.items()}),
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
        if self.rule is not None:
            self.rule.refresh()


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
        return Training(trainee, data, plan, run, marks, optimiser).go()
