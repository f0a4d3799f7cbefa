"""Warm-up of a session: it ends when inferences of as long again are no faster.

Providers compile for a shape when they first meet it, or after some calls, libraries try their algorithms, weights are
read from the disk as they are used. What is left of that when the first sample is taken slows the first launches of one
model and not of the other. A busy machine makes inferences slower and none faster, so that the least of them tells.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from orun.measure.latency.cpu_time import Times

LEAST = 2  # inferences after the first, whatever time they take
FASTER = 0.9  # least time over that of the inferences before, from which on the model gets faster: not by chance


@dataclass(frozen=True)
class Warmth:
    """What warming up took.

    Attributes:
        seconds: after which the model got no faster, or all that it had where it still did.
        each: seconds of the fastest inference.
        count: inferences.
    """

    seconds: float
    each: float
    count: int


def warm_up(infer: Callable[[], Times], seconds: float, longest: float, *, processor: bool) -> Warmth:
    """Run a model for some seconds, and on as long as it gets faster.

    Args:
        infer: makes one inference.
        seconds: at least.
        longest: seconds at most, for seeing whether it gets faster; nobody looks where `seconds` are more than half.
        processor: whether all of the model runs on the processor, where its CPU time is what others do not change.
    """
    begin = time.perf_counter()
    found = _for(infer, seconds)
    warm, took, every = seconds, time.perf_counter() - begin, list(found)
    while 2 * took <= longest:
        more = _for(infer, took)
        every += more
        if _least(more, processor=processor) > FASTER * _least(found, processor=processor):
            break
        found = more
        warm = took = time.perf_counter() - begin
    return Warmth(warm, min(float(one.wall[0]) for one in every), len(every))


def _for(infer: Callable[[], Times], seconds: float) -> list[Times]:
    """Inferences until the time is up."""
    end = time.perf_counter() + seconds
    found: list[Times] = []
    while len(found) < LEAST or time.perf_counter() < end:
        found.append(infer())
    return found


def _least(times: list[Times], *, processor: bool) -> float:
    return min(float((one.process if processor else one.wall)[0]) for one in times)
