"""How many cores this process may use: of the machine, by its affinity, by the quota of its container."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def cores() -> int:
    """At least 1."""
    count = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # not every system has it
        count = min(count, len(os.sched_getaffinity(0)))
    quota = _quota(CGROUP)
    return max(1, count if quota is None else min(count, math.ceil(quota)))


def _quota(root: Path) -> float | None:
    """Cores that a control group grants (version 2, else version 1); None: no limit."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        most, period = (root / "cpu.max").read_text().split()
        return None if most == "max" else int(most) / int(period)
    with suppress(OSError, ValueError, ZeroDivisionError):
        most, period = ((root / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(most) / int(period) if int(most) > 0 else None
    return None
