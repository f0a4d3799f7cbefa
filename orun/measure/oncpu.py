"""Time of inferences, with the time on the CPU told apart from the time spent waiting for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Run = Callable[[], object]

OTHERS = 1.05  # CPU time of all threads over that of the calling one from which others count as busy
AWAKE = 0.9  # share of the time, waiting left out, below which the calling thread counts as asleep meanwhile


@dataclass(frozen=True, eq=False)
class Times:
    """Inferences one after another.

    Attributes:
        wall: wall time of each, seconds, `[n]`.
        cpu: CPU time of the calling thread in each, seconds, `[n]`.
        waited: seconds that the threads of the process waited on run queues meanwhile, all together; None where the
            kernel does not count them.
    """

    wall: Floats
    cpu: Floats
    waited: float | None


def timed(run: Run, count: int, seconds: float = float("inf")) -> Times:
    """Time `count` inferences, or as many as begin within `seconds`; at least one."""
    wall, cpu = [], []
    before = waits()
    end = time.perf_counter() + seconds
    for _ in range(count):
        # CPU time is read outside: what interrupts between the readings then lengthens neither.
        cpu_start = time.thread_time_ns()
        start = time.perf_counter_ns()
        run()
        stop = time.perf_counter_ns()
        cpu_stop = time.thread_time_ns()
        wall.append(stop - start)
        cpu.append(cpu_stop - cpu_start)
        if time.perf_counter() >= end:
            break
    return Times(np.array(wall) / 1e9, np.array(cpu) / 1e9, waited_since(before))


def joined(parts: Sequence[Times]) -> Times:
    """Several lots of inferences as one."""
    waited = [part.waited for part in parts if part.waited is not None]
    return Times(
        wall=np.concatenate([part.wall for part in parts]),
        cpu=np.concatenate([part.cpu for part in parts]),
        waited=sum(waited) if len(waited) == len(parts) else None,
    )


def works_alone(run: Run, seconds: float) -> bool:
    """Whether the calling thread does all of an inference: no other works, and it never sleeps; runs some that long."""
    before = waits()
    start = time.perf_counter()
    process, thread = time.process_time(), time.thread_time()
    run()
    while time.perf_counter() < start + seconds:
        run()
    thread = time.thread_time() - thread
    process = time.process_time() - process
    on_core = time.perf_counter() - start - (waited_since(before) or 0.0)
    return process <= OTHERS * thread and thread >= AWAKE * on_core


def waits() -> dict[str, float]:
    """Seconds that each thread of this process has waited for a core so far; empty where the kernel does not count."""
    found: dict[str, float] = {}
    for statistics in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(FileNotFoundError):  # the thread ended meanwhile
            found[statistics.parent.name] = int(statistics.read_text(encoding="ascii").split()[1]) / 1e9
    return found


def waited_since(before: dict[str, float]) -> float | None:
    """Seconds that the threads in an earlier reading have waited since, all together; None where nothing is counted."""
    after = waits()
    return sum(after[thread] - before[thread] for thread in before if thread in after) if before else None
