"""Cores of this machine: which is the quietest, and how to stay on it."""

from __future__ import annotations

import os
import time
from pathlib import Path

LOOK_SECONDS = 0.1  # how long the cores are watched; the kernel counts in hundredths of a second


def quietest_core() -> int | None:
    """The usable core that was idle most of the last moment; None where the system does not tell or pin.

    To be called while nothing of ours runs.
    """
    if not hasattr(os, "sched_setaffinity") or not Path("/proc/stat").exists():
        return None
    before = _idle()
    time.sleep(LOOK_SECONDS)
    after = _idle()
    usable = sorted(os.sched_getaffinity(0) & after.keys())
    return max(usable, key=lambda core: after[core] - before.get(core, 0), default=None)


def pin(core: int) -> None:
    """Keep the calling thread on a core."""
    os.sched_setaffinity(0, {core})


def _idle() -> dict[int, int]:
    """Idle ticks of each core since boot."""
    lines = Path("/proc/stat").read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines if line.startswith("cpu") and line[3].isdigit())
    return {int(row[0][3:]): int(row[4]) for row in rows}
