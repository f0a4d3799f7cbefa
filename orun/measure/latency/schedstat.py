"""Linux's counters of this process's threads: seconds on a core and seconds waiting for one.

They come from `/proc/self/task/*/schedstat`. Elsewhere, and on kernels that do not count, nothing is returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

NOT_COUNTED = ["0", "0", "0"]  # a thread that has run has other numbers, unless counting is switched off
TICK = 0.01  # seconds after which, at the latest, a kernel updates the counters of a running thread


def read_waits() -> dict[str, float]:
    """Return the seconds for which each thread has waited for a core so far, by thread id."""
    return {thread: counters[1] / 1e9 for thread, counters in read_counters()}


def read_run_times() -> dict[str, float]:
    """Return the seconds for which each thread has been on a core so far, by thread id."""
    return {thread: counters[0] / 1e9 for thread, counters in read_counters()}


def read_counters() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield each thread's id and counters: nanoseconds on a core, nanoseconds waiting, time slices."""
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread ended before it was opened, or read
            counters = path.read_text(encoding="ascii").split()
            if counters != NOT_COUNTED:
                yield path.parent.name, tuple(map(int, counters))


def waited_since(before: Mapping[str, float]) -> float | None:
    """Return the seconds for which the threads of an earlier reading have waited since; None if it is empty."""
    after = read_waits()
    return sum(after[thread] - before[thread] for thread in before if thread in after) if before else None


def pending_wait(before: Mapping[str, tuple[int, ...]], seconds: float) -> float:
    """Return the seconds of waits that have not ended: the kernel counts a wait once the thread gets a core.

    Args:
        before: counters by thread.
        seconds: time since they were read. Within a tick the answer is 0: a running thread's counters have not moved.
    """
    if seconds < TICK:
        return 0.0
    unchanged = [thread for thread, counters in read_counters() if before.get(thread) == counters]
    return seconds * sum(map(is_runnable, unchanged))


def is_runnable(thread: str) -> bool:
    """Return whether a thread is on a core or waits for one."""
    with suppress(FileNotFoundError, ProcessLookupError):
        status = Path(f"/proc/self/task/{thread}/stat").read_text(encoding="utf-8", errors="replace")
        return status.rpartition(")")[2].split()[0] == "R"
    return False
