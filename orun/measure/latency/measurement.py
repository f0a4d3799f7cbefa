"""Latency measurement: launches of a model, alone and against others, until the answer is clear or the time is up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from orun.core.metrics import Disturbance
from orun.core.serialization import replace
from orun.measure.benchmark_case import BASELINE, MODEL, BenchmarkCase, Worker
from orun.measure.latency.cpu_cores import (
    SHARED_ERROR,
    SHARED_READING,
    CoreWatch,
    recall_reading,
    remember_reading,
)
from orun.measure.latency.launch import Launch, Pace, run_launch
from orun.measure.latency.pressure import Pressure, PressureGauge
from orun.measure.latency.sequential_test import FEWEST, FLOOR, SHARED, Evidence
from orun.measure.latency.timing_method import Method

ABBA_SHARE = 0.5  # of the time, for ABBA blocks
LONGEST = 3.0  # times the planned time that a measurement may take with the waiting for a core, or while disturbed
PROMISING = 2  # times `Budget.enough`: launches up to which a measurement may go on if they would decide it
WARMING = 20  # times the warm-up asked for: how long a model may still get faster
ERROR_SHARE = 0.4  # of the resolution: how well a launch is evidence. More launches tell more than longer ones.


@dataclass(frozen=True)
class Budget:
    """Limits of a measurement: launches, samples, time.

    Attributes:
        time: seconds after which no further launch begins, less the time spent waiting for a core; at most `LONGEST`
            times as long in all, which a comparison takes while too few launches are undisturbed. The fewest launches
            are made whatever they take, and `enough` launches while the answer is not clear.
        resolution: slow-down, a proportion, to tell from none; a ratio to a reference is measured to half of it.
        launches: the fewest and the most launches; never fewer than the test needs.
        samples: inferences of the model alone, over the fewest launches together.
        warmup: seconds of inference before the first sample of a session. If the slowest model took longer to be warm
            in the first launch, later launches take as long.
        alone: seconds that inferences of the model alone may take.
        enough: launches of a comparison before its time can be up, and before a ratio to a reference can be clear if
            the core was not watched; `PROMISING` times as many if these would make the answer clear, were the next ones
            like those so far.
    """

    time: float
    resolution: float
    launches: tuple[int, int]
    samples: int
    warmup: float
    alone: float = math.inf
    enough: int = 0


@dataclass(frozen=True, eq=False)
class Measurement:
    """Every launch.

    Attributes:
        launches: in their order.
        seconds: that they took together.
        pressure: on the machine meanwhile.
        reading: what the yardstick reads on a core alone, as this measurement and earlier ones tell; infinite without.
    """

    launches: Sequence[Launch]
    seconds: float
    pressure: Pressure
    reading: float = math.inf

    @property
    def compared(self) -> tuple[str, ...]:
        """Names of the models that it is compared with."""
        return tuple(self.launches[0].log_ratios)

    @property
    def counted(self) -> Sequence[Launch]:
        """The undisturbed launches, or all if these are too few."""
        return self._undisturbed_launches if len(self._undisturbed_launches) >= FEWEST else self.launches

    def select_launches(self, other: str) -> Sequence[Launch]:
        """Return the launches that count in a comparison with another model, or all if these are too few.

        On crowded cores the threads of a whole launch may work as fewer threads do, even in pairs in which none waited.
        The baseline then slows down alike. Other kernels do not: in 80 runs beside a process that worked half of the
        time, launches of one pair of models said 1.35 or 2.0, and runs passed or failed by which were in the majority.
        """
        counted = self._select_counting(other)
        return counted if len(counted) >= FEWEST else self.counted

    def _select_counting(self, other: str) -> Sequence[Launch]:
        return [launch for launch in self._undisturbed_launches if other == BASELINE or not launch.crowded]

    @cached_property
    def _undisturbed_launches(self) -> Sequence[Launch]:
        """Launches with enough pairs that count, on a core that no other launch shows to have been shared.

        On a core that was shared throughout a launch, its own readings are all high and equal, and look undisturbed.
        Only the lower readings of other launches, or of earlier measurements, reveal it.
        """
        alone = SHARED_READING * min(self.reading, *(launch.yardstick for launch in self.launches))
        return [
            launch
            for launch in self.launches
            if not launch.disturbed and (launch.yardstick <= alone or not launch.watched)
        ]

    @property
    def disturbance(self) -> Disturbance | None:
        """The disturbance if too few launches were undisturbed: interleaved times then tell nothing, or little."""
        return self._describe_disturbance(self._undisturbed_launches)

    def _describe_disturbance(self, counting: Sequence[Launch]) -> Disturbance | None:
        count = len(self.launches)
        shared = any(launch.watched for launch in self.launches)
        return Disturbance(count - len(counting), count, shared) if len(counting) < min(FEWEST, count) else None

    def list_log_ratios(self, other: str) -> list[float]:
        """Return the log ratio of the model's time to another's in each launch that counts."""
        return [launch.log_ratios[other] for launch in self.select_launches(other)]

    def weigh_evidence(self, other: str) -> Evidence:
        """Return the evidence on the model's time against another's."""
        return self.summarize(self.list_log_ratios(other), other)

    def summarize(self, log_ratios: Sequence[float], other: str) -> Evidence:
        """Return the evidence of log ratios of the model's times to another's, one of each launch that counts."""
        disturbance = self.find_disturbance(other)
        error = SHARED_ERROR if disturbance and disturbance.shared else 0.0
        return Evidence.from_log_ratios(log_ratios, get_shared_variance(other), error)

    def find_disturbance(self, other: str) -> Disturbance | None:
        """Return the disturbance of the comparison with another model: on a shared core, the baseline suffers alike."""
        disturbance = self._describe_disturbance(self._select_counting(other))
        return None if other == BASELINE and disturbance and disturbance.shared else disturbance


def measure(
    cases: Mapping[str, BenchmarkCase],
    budget: Budget,
    seed: int,
    progress: Callable[[int, int, str], None],
    start: Callable[[BenchmarkCase], Worker],
    method: Method | None = None,
) -> Measurement:
    """Measure `model` alone and against each other case.

    Args:
        cases: by name: `model`, and what it is compared with (`reference`, `baseline`).
        budget: how much is measured.
        seed: of every random order.
        progress: called as progress(launches done, of launches, "launches") before each launch. How many more than the
            fewest will be needed is not known: their total is 0.
        start: starts the process that runs a model.
        method: the time that models are compared by; None chooses it by the threads that work.

    Raises:
        OrunError: if a model cannot be opened or run.
    """
    random, gauge, watch = Random(seed), PressureGauge(), CoreWatch()  # noqa: S311 - an order, not a secret
    began = time.monotonic()
    fewest, most = max(budget.launches[0], FEWEST), max(budget.launches[1], FEWEST)
    pace = _choose_pace(budget, fewest, len(cases))
    launches: list[Launch] = []
    seconds = idle = 0.0
    while len(launches) < most:
        if len(launches) < fewest:
            progress(len(launches), fewest, "launches")
        else:
            progress(len(launches), 0, f"{len(launches)} launches, more until the figures are clear")
        launches.append(run_launch(cases, pace, random, start, method, watch))
        if len(launches) == 1 and launches[0].watched:
            watch.known = recall_reading()
        method = launches[0].method
        warm = max(session.warm for session in launches[0].sessions.values())
        pace = replace(pace, warmup=max(budget.warmup, warm), longest=0.0)
        before, seconds = seconds, time.monotonic() - began
        idle += (seconds - before) * min(launches[-1].waiting or 0.0, 1.0)
        if len(launches) < fewest:
            continue
        at_limit = seconds >= LONGEST * budget.time
        late = at_limit or seconds - idle - watch.waited >= budget.time
        so_far = Measurement(launches, seconds, Pressure(None, None), watch.least)
        comparisons = {name: so_far.weigh_evidence(name) for name in cases if name != MODEL}
        if comparisons and (so_far.disturbance or any(map(so_far.find_disturbance, comparisons))):
            if at_limit:  # until then there may be undisturbed launches enough
                break
            continue
        over = late and len(launches) >= budget.enough and not is_promising(comparisons, budget)
        watched = all(launch.watched for launch in launches)
        if over or is_clear(comparisons, budget, watched=watched):
            break
    if launches[0].watched:
        remember_reading(min(launch.yardstick for launch in launches))
    return Measurement(launches, seconds, gauge.read(), watch.least)


def get_shared_variance(other: str) -> float:
    """Return `Evidence.shared` of a comparison: 0 against the baseline, a model of the same kind."""
    return 0.0 if other == BASELINE else SHARED


def _choose_pace(budget: Budget, fewest: int, cases: int) -> Pace:
    return Pace(
        warmup=budget.warmup,
        samples=math.ceil(budget.samples / fewest),
        alone=budget.alone / fewest,
        abba_seconds=budget.time * ABBA_SHARE / fewest / max(cases - 1, 1),
        error=max(ERROR_SHARE * budget.resolution, FLOOR),
        longest=WARMING * budget.warmup,
    )


def is_clear(comparisons: Mapping[str, Evidence], budget: Budget, *, watched: bool = False) -> bool:
    """Return whether every comparison tells a slow-down from none and, against a reference, the ratio.

    A gate against the baseline asks whether the model is slower; a gate against a reference, how much faster it is.
    A few launches in a row may agree and be wrong about the ratio, unless the core was watched: work of others on it
    slows two kernels unequally, for seconds. Two models of the same kernels slow down alike.

    Args:
        comparisons: by the other model's name.
        budget: how much is to be known.
        watched: whether launches count only if nothing else used the core.
    """
    return all(
        evidence.answer(math.log1p(budget.resolution)) != "undecided"
        and (
            name == BASELINE
            or ((watched or evidence.count >= budget.enough) and evidence.half_width <= budget.resolution / 2)
        )
        for name, evidence in comparisons.items()
    )


def is_promising(comparisons: Mapping[str, Evidence], budget: Budget) -> bool:
    """Return whether a few launches more of the same mean and spread would make the answer clear.

    A sequential test may stop by what it has seen: its answer is decided by the same bounds.
    """
    counts = range(next((evidence.count for evidence in comparisons.values()), 0) + 1, PROMISING * budget.enough + 1)
    return any(
        is_clear({name: replace(evidence, count=count) for name, evidence in comparisons.items()}, budget)
        for count in counts
    )
