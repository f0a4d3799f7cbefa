"""Linux's counters of this process's threads: time on a core and time waiting for one.

They come from `/proc/self/task/*/schedstat`. Elsewhere, and on kernels that do not count, nothing is returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

NOT_COUNTED = ["0", "0", "0"]  # a thread that has run has other numbers, unless counting is switched off
TICK = 0.01  # seconds after which, at the latest, a kernel updates the counters of a running thread


class Counters(NamedTuple):
    """Counters of a thread: nanoseconds on a core, nanoseconds waiting for one, and time slices."""

    on_core: int
    waiting: int
    slices: int


def read_counters() -> dict[str, Counters]:
    """Return the counters of each thread by its id."""
    counters: dict[str, Counters] = {}
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread ended before it was opened, or read
            numbers = path.read_text(encoding="ascii").split()
            if numbers != NOT_COUNTED:
                counters[path.parent.name] = Counters(*map(int, numbers))
    return counters


def measure_wait(before: Mapping[str, Counters]) -> float | None:
    """Return the seconds for which the threads of an earlier reading have waited since; None if it is empty."""
    after = read_counters()
    waited = [after[thread].waiting - counters.waiting for thread, counters in before.items() if thread in after]
    return sum(waited) / 1e9 if before else None


def measure_work(before: Mapping[str, Counters]) -> list[float]:
    """Return the seconds for which each thread has been on a core since an earlier reading, or since it began."""
    return [
        (counters.on_core - (before[thread].on_core if thread in before else 0)) / 1e9
        for thread, counters in read_counters().items()
    ]


def measure_pending_wait(before: Mapping[str, Counters], seconds: float) -> float:
    """Return the seconds of waits that have not ended: the kernel counts a wait once the thread gets a core.

    Args:
        before: counters by thread.
        seconds: time since they were read. Within a tick the answer is 0: a running thread's counters have not moved.
    """
    if seconds < TICK:
        return 0.0
    unchanged = [thread for thread, counters in read_counters().items() if before.get(thread) == counters]
    return seconds * sum(map(is_runnable, unchanged))


def is_runnable(thread: str) -> bool:
    """Return whether a thread is on a core or waits for one."""
    with suppress(FileNotFoundError, ProcessLookupError):
        status = Path(f"/proc/self/task/{thread}/stat").read_text(encoding="utf-8", errors="replace")
        return status.rpartition(")")[2].split()[0] == "R"
    return False
