"""Warm-up of a session: it ends when as much time again makes inferences no faster.

Providers compile for a shape at its first use or after some calls, libraries try algorithms, weights are read from disk
as they are used. A warm-up that ends too early slows the first launches of one model and not of the other. A busy
machine makes inferences slower and none faster, so the fastest ones are compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from orun.measure.latency.cpu_time import Times

FEWEST = 2  # inferences after the first, whatever time they take
FASTER = 0.9  # least time over the least time before, below which the model still gets faster and not by chance


@dataclass(frozen=True)
class Warmth:
    """Result of a warm-up.

    Attributes:
        seconds: time after which the model got no faster, or all of the time if it still did.
        each: seconds of the fastest inference.
        count: inferences.
    """

    seconds: float
    each: float
    count: int


def warm_up(infer: Callable[[], Times], seconds: float, longest: float, *, processor: bool) -> Warmth:
    """Run a model for `seconds`, and longer while it gets faster.

    Args:
        infer: runs one inference.
        seconds: time at least.
        longest: time at most. Up to twice `seconds`, nothing is compared.
        processor: whether all of the model runs on the CPU. Then its CPU time is compared, which is least disturbed.
    """
    begin = time.perf_counter()
    latest = _infer_for(infer, seconds)
    warm, elapsed, every = seconds, time.perf_counter() - begin, list(latest)
    while 2 * elapsed <= longest:
        next_round = _infer_for(infer, elapsed)
        every += next_round
        if _find_least_seconds(next_round, processor=processor) > FASTER * _find_least_seconds(
            latest, processor=processor
        ):
            break
        latest = next_round
        warm = elapsed = time.perf_counter() - begin
    return Warmth(warm, min(float(times.wall[0]) for times in every), len(every))


def _infer_for(infer: Callable[[], Times], seconds: float) -> list[Times]:
    end = time.perf_counter() + seconds
    inferences: list[Times] = []
    while len(inferences) < FEWEST or time.perf_counter() < end:
        inferences.append(infer())
    return inferences


def _find_least_seconds(inferences: list[Times], *, processor: bool) -> float:
    return min(float((times.process if processor else times.wall)[0]) for times in inferences)
