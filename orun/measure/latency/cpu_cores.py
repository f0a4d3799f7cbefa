"""Cores of this machine: the quietest one, and pinning a thread to it."""

from __future__ import annotations

import os
import time
from pathlib import Path

WATCH_SECONDS = 0.1  # the kernel counts in hundredths of a second


def quietest_core() -> int | None:
    """Return the usable core that was idle most of the last moment; None if the system cannot tell or pin.

    Call it while no model runs.
    """
    if not hasattr(os, "sched_setaffinity") or not Path("/proc/stat").exists():
        return None
    before = read_idle_ticks()
    time.sleep(WATCH_SECONDS)
    after = read_idle_ticks()
    usable = sorted(os.sched_getaffinity(0) & after.keys())
    return max(usable, key=lambda core: after[core] - before.get(core, 0), default=None)


def pin(core: int) -> None:
    """Keep the calling thread on a core."""
    os.sched_setaffinity(0, {core})


def read_idle_ticks() -> dict[int, int]:
    """Return the idle ticks of each core since boot."""
    lines = Path("/proc/stat").read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines if line.startswith("cpu") and line[3].isdigit())
    return {int(row[0][3:]): int(row[4]) for row in rows}
