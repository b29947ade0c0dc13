"""What travels between a run and its workers: jobs there, the data once, results and errors back.

Jobs are sent with cloudpickle, so that network factories may be lambdas, closures, or functions of a notebook or
of the script itself. Only the run and its own workers exchange them; nothing of this is ever stored as a model.
"""

from __future__ import annotations

import io
import pickle
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch
from torch import Tensor

from cbdl.bayes.checkpoint import CheckpointError, bytes_of
from cbdl.bayes.methods.protocol import Method
from cbdl.bayes.progress import Display, elsewhere
from cbdl.bayes.rows import TrainingData
from cbdl.bayes.train import Interrupted, Run, TrainingWarning
from cbdl.ground import memory

from .local import Task, run_for
from .split import Trained, bring


class WorkerError(RuntimeError):
    """Something went wrong in a worker: the message says for which members, and why."""


class Unsendable(ValueError):
    """A part of the work that cannot be sent to another process."""


@dataclass(frozen=True)
class Job:
    """One group of members to train, and how."""

    label: str
    task: Task
    method: Method
    directory: str
    keep: bool
    """Whether the checkpoints stay when the job is done."""
    every_seconds: float
    verbose: bool
    threads: int
    settings: dict[str, Any]
    """Settings of torch, and the memory limit, that change numbers."""

    def encode(self) -> bytes:
        """This job as bytes; `Unsendable` names the part which cannot travel."""
        parts: dict[str, object] = {
            f"the network factory of likelihood {self.task.s}": self.task.likelihood.net,
            f"likelihood {self.task.s}": self.task.likelihood,
            "a prior": self.task.priors,
            "the method": self.method,
        }
        try:
            blob: bytes = cloudpickle.dumps(self)
        except Exception as error:
            for name, part in parts.items():
                reason = _refused(part)
                if reason is not None:
                    raise Unsendable(
                        f"{name} cannot be sent to a worker: {reason}. Let it build everything it needs by itself "
                        "(no open files, locks or handles from outside), or train with engine=Local()"
                    ) from error
            raise
        return blob


def _refused(part: object) -> str | None:
    try:
        cloudpickle.dumps(part)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def settings_here() -> dict[str, Any]:
    """Settings of torch in this process that a worker must share to get the same numbers."""
    return {
        "dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "precision": torch.get_float32_matmul_precision(),
        "memory": memory.limit(),
    }


def _apply(job: Job) -> None:
    s = job.settings
    torch.set_num_threads(job.threads)
    torch.set_default_dtype(s["dtype"])
    here = settings_here()
    if any(s[name] != here[name] for name in ("deterministic", "warn_only")):
        # asked for only where it changes something: torch imports its compiler for this, which takes seconds
        torch.use_deterministic_algorithms(s["deterministic"], warn_only=s["warn_only"])
    torch.set_float32_matmul_precision(s["precision"])
    memory.set_limit(s["memory"])


# ------------------------------------------------------------------------------------------------ the data


class _Lift(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles everything but tensors, which it collects, each once; a Dataset may be defined in a notebook."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.tensors: list[Tensor] = []
        self.seen: dict[int, int] = {}

    def persistent_id(self, obj: object) -> int | None:
        if not isinstance(obj, Tensor):
            return None
        if id(obj) not in self.seen:
            self.seen[id(obj)] = len(self.tensors)
            self.tensors.append(obj)
        return self.seen[id(obj)]


class _Lower(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, tensors: list[Tensor]) -> None:
        super().__init__(file)
        self.tensors = tensors

    def persistent_load(self, pid: int) -> Tensor:
        return self.tensors[pid]


@dataclass(frozen=True)
class Packed:
    """Training data as a few bytes and the types and shapes of its tensors, which travel beside it as bytes."""

    skeleton: bytes
    kinds: tuple[tuple[torch.dtype, tuple[int, ...]], ...]

    def unpack(self, arrays: Sequence[np.ndarray[Any, Any]]) -> TrainingData:
        """The data from its tensors' bytes, which are not copied.

        Arrays begin at multiples of 64 bytes, as memory of torch does: kernels then give the same bits.
        """
        with warnings.catch_warnings():
            # they may be read-only, and training does not write to its data
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            tensors = [
                torch.from_numpy(array).view(dtype).reshape(shape)
                for array, (dtype, shape) in zip(arrays, self.kinds, strict=True)
            ]
        data: TrainingData = _Lower(io.BytesIO(self.skeleton), tensors).load()
        return data


def pack(data: TrainingData) -> tuple[Packed, list[np.ndarray[Any, Any]]]:
    """The data in two parts, and so that its tensors can be shared instead of copied."""
    data.digest  # noqa: B018  computed once here, it travels along
    file = io.BytesIO()
    lift = _Lift(file)
    lift.dump(data)
    tensors = [x.detach().cpu().contiguous() for x in lift.tensors]
    kinds = tuple((x.dtype, tuple(x.shape)) for x in tensors)
    return Packed(file.getvalue(), kinds), [np.asarray(bytes_of(x)) for x in tensors]


# ----------------------------------------------------------------------------------------------- the work


@dataclass(frozen=True)
class Failure:
    """An exception of a worker: what it said, where, and itself if it can travel."""

    text: str
    trace: str
    error: bytes | None

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        try:
            blob = cloudpickle.dumps(error)
            pickle.loads(blob)
        except Exception:
            blob = None
        message = str(error).strip()
        text = f"{type(error).__name__}: {message}" if message else type(error).__name__
        return cls(text, "".join(traceback.format_exception(error)), blob)

    def raised(self, label: str) -> RuntimeError:
        """What the run raises for it."""
        cause = self._cause()
        if isinstance(cause, CheckpointError):
            return cause  # its message names the file, and so the members
        error = WorkerError(f"{label}: {self.text}")
        error.__cause__ = cause
        error.add_note(f"In the worker:\n{self.trace}")
        return error

    def _cause(self) -> BaseException | None:
        if self.error is None:
            return None
        try:
            cause = pickle.loads(self.error)
        except Exception:
            return None
        return cause if isinstance(cause, BaseException) else None


@dataclass(frozen=True)
class Outcome:
    """How a job ended: trained, stopped at a step boundary (both None), or failed."""

    trained: Trained | None = None
    failure: Failure | None = None
    warnings: tuple[str, ...] = ()


def perform(
    blob: bytes, data: Callable[[], TrainingData], stop: Callable[[], bool], display: Display
) -> Outcome:
    """Do the encoded job in this process, whatever comes of it."""
    shown = elsewhere.set(display)
    try:
        with _collected() as heard:
            try:
                job: Job = pickle.loads(blob)
            except (ImportError, AttributeError) as error:
                raise RuntimeError(
                    f"the worker cannot import what the job needs ({error}). Install the module where the workers "
                    "run, or define the network factory in the script or notebook itself: then it is sent along"
                ) from error
            _apply(job)
            loaded = data()
            run = run_for(job.task, Run(verbose=job.verbose), job.directory, job.every_seconds)
            run = replace(run, label=job.label, stop=stop)
            posterior = job.method.fit(job.task.cohort(loaded), loaded, run)
            trained = bring(posterior)
            if not job.keep and run.checkpoint is not None:
                _remove(run.checkpoint.path)
            failures = () if trained.record is None else trained.record.failures.values()
            # those of a worker that died meanwhile were heard by nobody
            heard += [message for message in failures if message not in heard]
            return Outcome(_on_cpu(trained), warnings=tuple(heard))
    except Interrupted:
        return Outcome()
    except BaseException as error:  # the run decides what becomes of it
        return Outcome(failure=Failure.of(error))
    finally:
        elsewhere.reset(shown)


def _remove(path: Path) -> None:
    """The checkpoints of `path`, and its directory if nothing else is in it: a node keeps nothing of the run."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
        path.with_name(f"{path.name}.previous").unlink(missing_ok=True)
        path.parent.rmdir()


def _on_cpu(trained: Trained) -> Trained:
    return replace(trained, state={name: x.detach().cpu() for name, x in trained.state.items()})


@contextmanager
def _collected() -> Iterator[list[str]]:
    """Warnings about the training are collected for the run; others are shown as ever."""
    heard: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", TrainingWarning)
        show = warnings.showwarning

        def listen(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, TrainingWarning):
                heard.append(str(message))
            else:
                show(message, category, *rest, **more)

        warnings.showwarning = listen
        yield heard
