"""Where cohorts are trained: in this process, in local processes, on a Ray cluster.

How the work is split changes nothing but rounding; the same split on the same number of threads gives the same
tensors.
"""

from cbdl.bayes.methods.protocol import Method

from .auto import Auto
from .engine import Engine, check_engine
from .job import WorkerError
from .local import Local, Task, tasks
from .processes import Processes, crew_kept
from .ray_cluster import Ray
from .side_by_side import train, without_folds

__all__ = [
    "Auto",
    "Engine",
    "Local",
    "Method",
    "Processes",
    "Ray",
    "Task",
    "WorkerError",
    "check_engine",
    "crew_kept",
    "tasks",
    "train",
    "without_folds",
]


def __dir__() -> list[str]:
    return sorted(__all__)
