"""Latency of a model, alone and against others: launches until the answer is clear or the time is used up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from orun.core.metrics import Disturbance
from orun.core.serialization import replace
from orun.measure.benchmark_case import Subject
from orun.measure.latency.abba_blocks import BASELINE, MODEL, PATIENCE, Launch, Pace, launch
from orun.measure.latency.pressure import Pressure, PressureGauge
from orun.measure.latency.sequential_test import FEWEST, FLOOR, SHARED, Evidence

QUADS_SHARE = 0.5  # of the time, for quads
PROMISED = 2  # in times of the launches that are enough
WARMING = 20  # in times of the warm-up that was asked for: how long a model may get faster
ERROR_SHARE = 0.4  # of the slow-down to be told: how well a launch is known; more launches say more than longer ones


@dataclass(frozen=True)
class Budget:
    """How much is measured.

    Attributes:
        time: seconds after which no further launch begins, those left out in which the model waited for a core; at most
            `PATIENCE` times as long in all. The fewest launches are made whatever they take, and `enough` where less is
            not clear.
        resolution: the slow-down, a proportion, that is to be told from none; a ratio is found to half of it.
        launches: the fewest and the most launches; never fewer than the test needs.
        samples: inferences of the model alone, over the fewest launches together.
        warmup: seconds of inference before the first sample of a session, at least: as long as the slowest of the
            models takes to be warm in the first launch.
        alone: seconds that inferences of the model alone may take.
        enough: launches of a comparison before its time can be over; `PROMISED` times as many where these would make it
            clear if the next ones were as those that there are.
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
    """Every launch, how long they took together, and how busy the machine was meanwhile."""

    launches: Sequence[Launch]
    seconds: float
    pressure: Pressure

    @property
    def others(self) -> tuple[str, ...]:
        """Names of the models that it is compared with."""
        return tuple(self.launches[0].ratios)

    @property
    def counted(self) -> Sequence[Launch]:
        """The launches that are evidence: those that were not disturbed, or all if these are too few."""
        undisturbed = _undisturbed(self.launches)
        return undisturbed if len(undisturbed) >= FEWEST else self.launches

    @property
    def disturbance(self) -> Disturbance | None:
        """Why times beside one another tell nothing; None if enough launches were not disturbed."""
        count, undisturbed = len(self.launches), len(_undisturbed(self.launches))
        return Disturbance(count - undisturbed, count) if undisturbed < min(FEWEST, count) else None

    def log_ratios(self, other: str) -> list[float]:
        """The log ratio of the model's time to another's in each launch that counts."""
        return [one.ratios[other] for one in self.counted]

    def evidence(self, other: str) -> Evidence:
        """How the model's time compares with another's."""
        return Evidence.of(self.log_ratios(other), shared(other))


def measure(
    subjects: Mapping[str, Subject],
    budget: Budget,
    seed: int,
    progress: Callable[[int, int, str], None],
) -> Measurement:
    """Measure `model` alone and against each other subject.

    Args:
        subjects: by name: `model`, and what it is compared with (`reference`, `baseline`).
        budget: how much is measured.
        seed: of every random order.
        progress: called as progress(seconds, of seconds, what) before each launch.

    Raises:
        OrunError: when a model cannot be opened or run.
    """
    random, gauge = Random(seed), PressureGauge()  # noqa: S311 - an order, not a secret
    began = time.monotonic()
    fewest, most = max(budget.launches[0], FEWEST), max(budget.launches[1], FEWEST)
    pace = _pace(budget, fewest, len(subjects))
    launches: list[Launch] = []
    seconds = idle = 0.0
    while len(launches) < most:
        progress(int(seconds), math.ceil(budget.time), f"launch {len(launches) + 1}")
        launches.append(launch(subjects, pace, random, launches[0].method if launches else None))
        pace = replace(pace, warmup=_warmup(budget, launches[0]), longest=0.0)
        before, seconds = seconds, time.monotonic() - began
        idle += (seconds - before) * min(launches[-1].waiting or 0.0, 1.0)
        if len(launches) < fewest:
            continue
        late = seconds - idle >= budget.time or seconds >= PATIENCE * budget.time
        so_far = Measurement(launches, seconds, Pressure(None, None))
        found = {name: so_far.evidence(name) for name in subjects if name != MODEL}
        if so_far.disturbance and found:
            if late:
                break
            continue
        over = late and len(launches) >= budget.enough and not _is_promising(found, budget)
        if over or _is_clear(found, budget.resolution):
            break
    return Measurement(launches, seconds, gauge.read())


def shared(other: str) -> float:
    """Return what the launches of a run have in common: nothing beside the baseline, a model of the same kind."""
    return 0.0 if other == BASELINE else SHARED


def _undisturbed(launches: Sequence[Launch]) -> list[Launch]:
    return [one for one in launches if not one.disturbed]


def _warmup(budget: Budget, first: Launch) -> float:
    """Seconds of inference after which the models of the first launch were warm."""
    return max(budget.warmup, *(one.warm for one in first.opened.values()))


def _pace(budget: Budget, fewest: int, subjects: int) -> Pace:
    return Pace(
        warmup=budget.warmup,
        samples=math.ceil(budget.samples / fewest),
        alone=budget.alone / fewest,
        quads=budget.time * QUADS_SHARE / fewest / max(subjects - 1, 1),
        error=max(ERROR_SHARE * budget.resolution, FLOOR),
        longest=WARMING * budget.warmup,
    )


def _is_clear(found: Mapping[str, Evidence], resolution: float) -> bool:
    """Whether the launches tell a slow-down from none and, against a reference, the ratio to half of it.

    A gate against the baseline asks whether the model is slower; one against a reference asks how much faster it is.
    """
    return all(
        evidence.answer(math.log1p(resolution)) != "undecided"
        and (name == BASELINE or evidence.half_width <= resolution / 2)
        for name, evidence in found.items()
    )


def _is_promising(found: Mapping[str, Evidence], budget: Budget) -> bool:
    """Whether it would be clear with a few launches more of the same mean and spread.

    When to stop is decided by what was found so far, which a sequential test allows: what it answers by stays the same.
    """
    counts = range(next((one.count for one in found.values()), 0) + 1, PROMISED * budget.enough + 1)
    return any(
        _is_clear({name: replace(one, count=count) for name, one in found.items()}, budget.resolution)
        for count in counts
    )
