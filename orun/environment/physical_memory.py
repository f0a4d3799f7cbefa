"""Physical memory of this machine, and the processes that the kernel killed for lack of it."""

from __future__ import annotations

import contextlib
import functools
import os

from orun.environment import cgroups


def count_out_of_memory_kills() -> int:
    """Return the number of processes killed for lack of memory in this control group, or on this machine."""
    path = _find_kill_counter(cgroups.PROC, cgroups.GROUPS)
    return _read_kills(path) or 0 if path else 0


@functools.lru_cache(maxsize=1)  # called before and after each stage; a process stays in its group
def _find_kill_counter(proc: str, _groups: str) -> str | None:
    counters = (*cgroups.list_files("memory", "memory.events", "memory.oom_control"), f"{proc}/vmstat")
    return next((path for path in counters if _read_kills(path) is not None), None)


def _read_kills(path: str) -> int | None:
    """Return the count in a file of the kernel; None if the file has none."""
    _, separator, rest = f"\n{cgroups.read_text(path)}".partition("\noom_kill ")
    return int(rest.split(None, 1)[0]) if separator else None


def measure_memory() -> int:
    """Return the bytes of memory of this machine, or of this process's control group if that is less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in cgroups.list_files("memory", "memory.max", "memory.limit_in_bytes"):
        with contextlib.suppress(ValueError):  # missing, or "max"
            limits.append(int(cgroups.read_text(path)))
    return min(limits)
