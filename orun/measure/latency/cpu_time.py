"""CPU time of inferences, and the threads that work in them. Time spent waiting for a core is left out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orun.measure.latency import schedstat

Floats = NDArray[np.float64]
Run = Callable[[], object]

OTHER_THREADS = 1.05  # CPU time of all threads over that of the calling thread from which others count as busy
DOUBTFUL = 1.5  # up to this ratio, the observation is repeated
OBSERVATIONS = 3  # before the calling thread is held not to do all the work
BUSY_SHARE = 0.5  # CPU time over wall time of the least disturbed inference from which its threads count as busy
UNDISTURBED = 0.9  # quantile: single short inferences look better than they are; of a few, the best counts
SIMULTANEOUS = 1.25  # threads on a core or waiting for one, on average, from which several work at once
WORKING = 0.05  # CPU time of a thread over that of the calling thread from which it counts as working
AWAKE = 0.9  # share of the time, waiting left out, below which the calling thread counts as asleep


@dataclass(frozen=True, eq=False)
class Times:
    """Inferences one after another.

    Attributes:
        wall: wall time of each, seconds, `[n]`.
        cpu: CPU time of the calling thread in each, seconds, `[n]`.
        process: CPU time of all threads of the process in each, seconds, `[n]`.
        waited: seconds for which threads waited on run queues, summed over threads; None if the kernel does not count.
    """

    wall: Floats
    cpu: Floats
    process: Floats
    waited: float | None


def time_inferences(run: Run, count: int, seconds: float = float("inf")) -> Times:
    """Time `count` inferences, or as many as begin within `seconds`; at least one."""
    wall, cpu, process = [], [], []
    before = schedstat.read_counters()
    begin = time.perf_counter()
    end = begin + seconds
    for _ in range(count):
        # CPU time is read outside wall time: an interruption between the readings then lengthens neither.
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
    waited = schedstat.measure_wait(before)
    if waited is not None:
        waited += schedstat.measure_pending_wait(before, time.perf_counter() - begin)
    return Times(np.array(wall) / 1e9, np.array(cpu) / 1e9, np.array(process) / 1e9, waited)


def concatenate(parts: Sequence[Times]) -> Times:
    """Join sequences of inferences."""
    waited = [part.waited for part in parts if part.waited is not None]
    return Times(
        wall=np.concatenate([part.wall for part in parts]),
        cpu=np.concatenate([part.cpu for part in parts]),
        process=np.concatenate([part.process for part in parts]),
        waited=sum(waited) if len(waited) == len(parts) else None,
    )


@dataclass(frozen=True)
class Work:
    """Threads that work while inferences run.

    Attributes:
        process: CPU seconds of all threads.
        thread: CPU seconds of the calling thread.
        awake: share of the time in which the calling thread worked: of all time in which no thread waited for a core,
            or of the least disturbed inferences, whichever is more. Neither alone suffices: time that a hypervisor
            takes away counts as no waiting, and a long inference on a busy machine is always disturbed.
        most: largest CPU time of all threads in an inference over its wall time.
        busy: threads that worked; 0 if the kernel does not count.
        waiting: seconds for which the other threads waited for a core: they would have worked.
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
        """Whether the calling thread does all the work and never sleeps."""
        return self.process + self.waiting <= OTHER_THREADS * self.thread and self.sleepless

    @property
    def sleepless(self) -> bool:
        """Whether the calling thread works, or spins until other threads finish, from start to end."""
        return self.awake >= AWAKE

    @property
    def in_turn(self) -> bool:
        """Whether one thread at a time works, whichever it is.

        Undisturbed, threads that work at once take more CPU time than wall time. One at a time takes as much, never
        more. So do several that share one core, but they wait for it at once.
        """
        return self.alone or (BUSY_SHARE <= self.most <= OTHER_THREADS and self.wanted <= SIMULTANEOUS)


def observe_work(run: Run, seconds: float) -> Work:
    """Run inferences for `seconds` and see which threads work; repeat while that is doubtful.

    The answer decides how a whole measurement is made. Time that a hypervisor takes away in that moment, or an
    unrelated thread, must not decide it. Threads that sleep or share the work are seen to do so each time.
    """
    work = observe_once(run, seconds)
    for _ in range(OBSERVATIONS - 1):
        if work.alone or work.process > DOUBTFUL * work.thread:
            break
        work = observe_once(run, seconds)
    return work


def observe_once(run: Run, seconds: float) -> Work:
    """Run for some seconds and return the work of each thread meanwhile."""
    caller = str(threading.get_native_id())
    before = schedstat.read_counters()
    start = time.perf_counter()
    process, thread = time.process_time(), time.thread_time()
    inferences: list[Times] = []
    while not inferences or time.perf_counter() < start + seconds:
        inferences.append(time_inferences(run, 1))
    thread = time.thread_time() - thread
    process = time.process_time() - process
    elapsed = time.perf_counter() - start
    waited = (schedstat.measure_wait(before) or 0.0) + schedstat.measure_pending_wait(before, elapsed)
    caller_waited = schedstat.measure_wait({caller: before[caller]} if caller in before else {}) or 0.0
    times = concatenate(inferences)
    undisturbed = float(np.quantile(times.cpu / times.wall, UNDISTURBED, method="higher"))
    return Work(
        process=process,
        thread=thread,
        awake=max(thread / (elapsed - caller_waited), undisturbed),
        most=float((times.process / times.wall).max()),
        busy=sum(seconds > WORKING * thread for seconds in schedstat.measure_work(before)),
        waiting=max(waited - caller_waited, 0.0),
        wanted=(process + waited) / elapsed,
    )
