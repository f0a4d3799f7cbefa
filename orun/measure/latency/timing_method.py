"""Time that two models are compared by: CPU time of the calling thread, of the process, or wall time.

thread   The calling thread does all the work: its CPU time. The processes are pinned to the quietest core.
threads  Other threads work with the calling thread, which never sleeps (ONNX Runtime's own CPU provider): it spins
         until they finish. Its CPU time is the latency less the time for which it waited for a core itself.
process  One thread works at a time, and not always the calling one (a provider that is told to use one thread of its
         own): the CPU time of all threads.
wall     Anything else (an accelerator, a calling thread that sleeps, more threads than cores): wall time. CPU time of
         all threads would be work, not latency, and would count spinning.

Where one thread works at a time, a block of ten inferences or more counts by its fastest tenth, a shorter one by its
median. After another process had the core, the first inferences find the caches filled with its data. That slows a
float model more than its 8-bit form, whose weights are loaded sooner. For a model of 0.4 ms at a load of 17 on two
cores, six launches gave 1.61x to 1.65x by the median and 1.58x to 1.62x by the fastest tenth; at a load of 19 one run
gave 1.96x by the median. Other processes make no inference faster, so the fast ones are those of an undisturbed core.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np

from orun.environment.processor import count_usable_cores
from orun.measure.benchmark_case import SessionInfo
from orun.measure.latency.cpu_time import Times

Method = Literal["thread", "threads", "process", "wall"]

MANY_INFERENCES = 10  # in the shorter of two blocks: from here on the fastest of them count
FASTEST = 0.1  # quantile of a block's inferences that counts where one thread works at a time


def choose_method(sessions: Mapping[str, SessionInfo]) -> Method:
    """Choose the method that suits all models. Where threads outnumber the cores, waiting is the model's own time."""
    if all(session.work.alone for session in sessions.values()):
        return "thread"
    crowded = any(session.work.busy > count_usable_cores() for session in sessions.values())
    if all(
        session.work.alone or (session.processor and session.work.sleepless and not crowded)
        for session in sessions.values()
    ):
        return "threads"
    return "process" if all(session.processor and session.work.in_turn for session in sessions.values()) else "wall"


def shares_cores(sessions: Mapping[str, SessionInfo], method: Method) -> bool:
    """Return whether threads of one model take cores from those of another."""
    several = method == "threads" or not all(session.work.alone for session in sessions.values())
    return several and all(session.processor for session in sessions.values())


def compute_log_ratio(ours: Times, theirs: Times, method: Method) -> float:
    """Return the log of the model's time over another's. Both are judged by the size of the shorter block."""
    count = min(len(ours.wall), len(theirs.wall))
    return math.log(compute_inference_seconds(ours, method, count) / compute_inference_seconds(theirs, method, count))


def compute_inference_seconds(times: Times, method: Method, count: int) -> float:
    """Return the seconds of an inference.

    Args:
        times: the inferences.
        method: the kind of time.
        count: inferences in a block. Long blocks count by a low quantile, which would favour the longer of two blocks.
    """
    if method == "wall":
        return float(np.median(times.wall))
    if method == "threads" or count < MANY_INFERENCES:
        return float(np.median(times.process if method == "process" else times.cpu))
    return float(np.quantile(times.cpu if method == "thread" else times.process, FASTEST, method="lower"))


def compute_waiting_share(times: Times) -> float | None:
    """Return the seconds for which threads waited for a core in each second of inference; None if not counted."""
    return None if times.waited is None else times.waited / float(times.wall.sum())
