"""CPU time of inferences, apart from the time spent waiting for a core."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Run = Callable[[], object]

OTHERS = 1.05  # CPU time of all threads over that of the calling one from which others count as busy
DOUBTFUL = 1.5  # the same from which they are busy beyond doubt
LOOKS = 3  # before one thread is held not to do all
TURNS = 0.5  # share of the wall time of the least disturbed inference from which its threads count as busy
UNDISTURBED = 0.9  # quantile of short inferences, of which single ones look better than they are; of a few the best
NOTHING = ["0", "0", "0"]  # what a kernel says that was told not to count; of a thread that has run, none that counts
AT_ONCE = 1.25  # threads that work or wait for a core from which several do at once
BUSY = 0.05  # CPU time of a thread over that of the calling one from which it counts as at work
TICK = 0.01  # seconds, the longest after which a kernel counts what a thread that runs has run
AWAKE = 0.9  # share of the time, waiting left out, below which the calling thread counts as asleep meanwhile


@dataclass(frozen=True, eq=False)
class Times:
    """Inferences one after another.

    Attributes:
        wall: wall time of each, seconds, `[n]`.
        cpu: CPU time of the calling thread in each, seconds, `[n]`.
        process: CPU time of all threads of the process in each, seconds, `[n]`.
        waited: seconds that the threads of the process waited on run queues meanwhile, all together; None where the
            kernel does not count them.
    """

    wall: Floats
    cpu: Floats
    process: Floats
    waited: float | None


def timed(run: Run, count: int, seconds: float = float("inf")) -> Times:
    """Time `count` inferences, or as many as begin within `seconds`; at least one."""
    wall, cpu, process = [], [], []
    before, counts = waits(), dict(_counts())
    begin = time.perf_counter()
    end = begin + seconds
    for _ in range(count):
        # CPU time is read outside: what interrupts between the readings then lengthens neither.
        process_start, cpu_start = time.process_time_ns(), time.thread_time_ns()
        start = time.perf_counter_ns()
        run()
        stop = time.perf_counter_ns()
        cpu_stop, process_stop = time.thread_time_ns(), time.process_time_ns()
        wall.append(stop - start)
        cpu.append(cpu_stop - cpu_start)
        process.append(process_stop - process_start)
        if time.perf_counter() >= end:
            break
    waited = waited_since(before)
    if waited is not None:
        waited += starved(counts, time.perf_counter() - begin)
    return Times(np.array(wall) / 1e9, np.array(cpu) / 1e9, np.array(process) / 1e9, waited)


def joined(parts: Sequence[Times]) -> Times:
    """Several lots of inferences as one."""
    waited = [part.waited for part in parts if part.waited is not None]
    return Times(
        wall=np.concatenate([part.wall for part in parts]),
        cpu=np.concatenate([part.cpu for part in parts]),
        process=np.concatenate([part.process for part in parts]),
        waited=sum(waited) if len(waited) == len(parts) else None,
    )


@dataclass(frozen=True)
class Work:
    """Who works while inferences run.

    Attributes:
        process, thread: seconds on the CPU of all threads, and of the calling one.
        awake: share of the time in which the calling thread worked: of all time but that in which a thread waited for a
            core, or of the least disturbed inferences, whichever is more. Neither suffices: what a host takes away
            from a virtual machine counts as no waiting, and a long inference on a busy machine is always disturbed.
        most: the largest CPU time of all threads in an inference, divided by its wall time.
        busy: threads that worked; 0 where the kernel does not tell.
        waiting: seconds that the other threads waited for a core: they would have worked.
        wanted: threads that were on a core or waited for one, on average.
    """

    process: float
    thread: float
    awake: float
    most: float
    busy: int
    waiting: float = 0.0
    wanted: float = 1.0

    @property
    def alone(self) -> bool:
        """Whether the calling thread does all: no other works or waits for a core to do so, and it never sleeps."""
        return self.process + self.waiting <= OTHERS * self.thread and self.sleepless

    @property
    def sleepless(self) -> bool:
        """Whether the calling thread works, or looks for the end of others' work, from the start to the end."""
        return self.awake >= AWAKE

    @property
    def in_turn(self) -> bool:
        """Whether one thread at a time works, whichever it is.

        Of several at once an inference takes more CPU time than wall time when nothing disturbs it; of one at a time as
        much, and never more. Several that share one core take as much, too: they wait for it at once.
        """
        return self.alone or (TURNS <= self.most <= OTHERS and self.wanted <= AT_ONCE)


def watched(run: Run, seconds: float) -> Work:
    """Run inferences for that long, and see who works; again where it is not clear whether one thread does all.

    What a host takes away from a virtual machine in that moment, or a stray thread, would decide how a whole
    measurement is made. Who sleeps, or shares the work, is seen doing so each time.
    """
    found = _watched(run, seconds)
    for _ in range(LOOKS - 1):
        if found.alone or found.process > DOUBTFUL * found.thread:
            break
        found = _watched(run, seconds)
    return found


def _watched(run: Run, seconds: float) -> Work:
    caller = str(threading.get_native_id())
    before, worked, counts = waits(), runs(), dict(_counts())
    start = time.perf_counter()
    process, thread = time.process_time(), time.thread_time()
    found: list[Times] = []
    while not found or time.perf_counter() < start + seconds:
        found.append(timed(run, 1))
    thread = time.thread_time() - thread
    process = time.process_time() - process
    elapsed = time.perf_counter() - start
    waited = (waited_since(before) or 0.0) + starved(counts, elapsed)
    caller_waited = waited_since({thread: waited for thread, waited in before.items() if thread == caller}) or 0.0
    on_core = elapsed - caller_waited
    every = joined(found)
    undisturbed = float(np.quantile(every.cpu / every.wall, UNDISTURBED, method="higher"))
    return Work(
        process=process,
        thread=thread,
        awake=max(thread / on_core, undisturbed),
        most=float((every.process / every.wall).max()),
        busy=sum(ran - worked.get(one, 0.0) > BUSY * thread for one, ran in runs().items()),
        waiting=max(waited - caller_waited, 0.0),
        wanted=(process + waited) / elapsed,
    )


def waits() -> dict[str, float]:
    """Seconds that each thread of this process has waited for a core so far; empty where the kernel does not count."""
    return {thread: counts[1] / 1e9 for thread, counts in _counts()}


def runs() -> dict[str, float]:
    """Seconds that each thread of this process has been on a core so far; empty where the kernel does not count."""
    return {thread: counts[0] / 1e9 for thread, counts in _counts()}


def starved(before: Mapping[str, tuple[int, ...]], seconds: float) -> float:
    """Return the seconds that threads waited for a core in vain: the kernel counts them once they get one.

    Args:
        before: what the kernel had counted of each thread.
        seconds: since then. Within a tick nothing is told, as a thread that runs has no other counts either.
    """
    same = [thread for thread, counts in _counts() if before.get(thread) == counts] if seconds >= TICK else []
    return seconds * sum(map(_is_runnable, same))


def _is_runnable(thread: str) -> bool:
    """Whether a thread of this process is on a core or waits for one."""
    with suppress(FileNotFoundError, ProcessLookupError):
        status = Path(f"/proc/self/task/{thread}/stat").read_text(encoding="utf-8", errors="replace")
        return status.rpartition(")")[2].split()[0] == "R"
    return False


def _counts() -> Iterator[tuple[str, tuple[int, ...]]]:
    """What the kernel counts of each thread, nanoseconds on cores and waiting for one first."""
    for statistics in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread ended before it was opened, or read
            counts = statistics.read_text(encoding="ascii").split()
            if counts != NOTHING:
                yield statistics.parent.name, tuple(map(int, counts))


def waited_since(before: dict[str, float]) -> float | None:
    """Seconds that the threads in an earlier reading have waited since, all together; None where nothing is counted."""
    after = waits()
    return sum(after[thread] - before[thread] for thread in before if thread in after) if before else None
