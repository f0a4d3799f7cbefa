"""ABBA blocks: two models timed in turn, so that drift and disturbances hit both alike.

Blocks of about 15 ms of inference follow one another as A B B A or B A A B, at random. Four of them are an *ABBA
block*. Each half of it is a *pair* of neighbouring blocks and yields one log ratio. One half has the model first, the
other second, so a linear drift cancels (counterbalanced crossover: Jones and Kenward, "Design and Analysis of
Cross-Over Trials"). The median over pairs is taken, not over ABBA blocks: a shared core changes its speed by a third
from one inference to the next, which disturbs an ABBA block twice as often as a pair. ABBA blocks go on until the
median is known well enough.

Caches. A block leaves its data in the caches for the next one. Against the baseline both models suffer alike. A model
that is much faster than its reference would lose up to a fifth of its speed-up, which a user, whose model has the core
to itself, would see. Against a reference, therefore, each block that counts follows a block of the same model that does
not count.

Waiting threads. On several threads a model is stopped while another one is timed: its threads would keep looking for
work on the other's cores. After it goes on, its first inferences do not count (see `Worker.time`). If a thread
waits for a core, the others do its share, and the inference is that of fewer threads: on two cores an 8-bit model of
0.2 ms is 1.33 times as fast as in float while each thread has a core, and 1.58 times while one waits. This depends on
the machine's other processes and can last for minutes, so the spread of one run's launches does not show it. A pair
counts only if threads waited for less than `DISTURBED` of its time. The choice is made by a covariate, not by the
outcome (Cochran 1957, "Analysis of Covariance: Its Nature and Uses", Biometrics 13:261-281).

Shared cores. Against a reference on one thread of the CPU, a pair counts only if each of its blocks began and ended
while nothing else used the core: see `orun.measure.latency.cpu_cores`. Beside an accelerator the thread waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from orun.measure.benchmark_case import BASELINE, MODEL, RESUMED_SECONDS, SessionInfo, Worker
from orun.measure.latency.cpu_cores import CoreWatch, find_low_reading
from orun.measure.latency.cpu_time import Times, concatenate
from orun.measure.latency.quantiles import estimate_median_error
from orun.measure.latency.timing_method import Method, compute_log_ratio, compute_waiting_share

BLOCK_SECONDS = 0.015
MOST_ABBA_BLOCKS = 100
PATIENCE = 2.0  # times the planned time that ABBA blocks may take with the time spent waiting for a core
FEWEST_ABBA_BLOCKS = 4  # of a slow model: in two, disturbances are too frequent for a median
DISTURBED = 0.05  # share of a pair's time that threads may wait for a core
WARMED = 2.0  # blocks run for each block that counts, where caches are warmed first
STEADY_ABBA_BLOCKS = 8  # below this, the standard error of their median is hardly known


@dataclass(frozen=True, eq=False)
class Block:
    """Inferences of the model `name`, one after another.

    Attributes:
        name: of the model.
        times: of the inferences.
        yardstick: readings before and after; none where they do not matter.
    """

    name: str
    times: Times
    yardstick: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Pair:
    """Neighbouring blocks of the model and of `other`: half of an ABBA block. A model alone is its own `other`."""

    other: str
    blocks: Sequence[Block]

    def compute_log_ratio(self, method: Method) -> float:
        """Return the log of the model's time over the other's."""
        return compute_log_ratio(join_times(MODEL, self.blocks), join_times(self.other, self.blocks), method)

    @property
    def readings(self) -> list[float]:
        """Readings of the yardstick in its blocks."""
        return [reading for block in self.blocks for reading in block.yardstick]

    @property
    def waiting(self) -> float:
        """Seconds for which threads waited for a core in each second; 0 where the kernel does not count them."""
        return compute_waiting_share(concatenate([block.times for block in self.blocks])) or 0.0


def count_inferences(sessions: Mapping[str, SessionInfo]) -> dict[str, int]:
    """Return how many inferences a block of each model has."""
    return {name: max(round(BLOCK_SECONDS / session.each), 1) for name, session in sessions.items()}


def join_times(name: str, blocks: Sequence[Block]) -> Times:
    """Return all inferences of a model."""
    return concatenate([block.times for block in blocks if block.name == name])


def find_least_yardstick(pairs: Sequence[Pair]) -> float:
    """Return the least reading: that of a core which nothing else used. Infinite if there is none."""
    return find_low_reading(sorted(reading for pair in pairs for reading in pair.readings))


def compute_log_ratios(pairs: Sequence[Pair], other: str, method: Method) -> list[float]:
    """Return the log ratio of each pair against one other model."""
    return [pair.compute_log_ratio(method) for pair in pairs if pair.other == other]


@dataclass(frozen=True)
class AbbaBlocks:
    """ABBA blocks of the model against each other model, in random order; of the model alone if there is no other.

    Attributes:
        workers: by the model's name.
        counts: inferences in a block of each model.
        method: the time that models are compared by.
        seconds: what the ABBA blocks against one other model may take; `PATIENCE` times as much with waiting.
        error: standard error of the median log ratio at which ABBA blocks end.
        random: decides every order.
        resting: whether each model is stopped while another one is timed.
        watch: whether something else uses the core; None if that is not asked.
    """

    workers: Mapping[str, Worker]
    counts: Mapping[str, int]
    method: Method
    seconds: float
    error: float
    random: Random
    resting: bool
    watch: CoreWatch | None = None

    def run(self, sessions: Mapping[str, SessionInfo]) -> list[Pair]:
        """Run ABBA blocks until every ratio is known well enough or the time is up; return their pairs."""
        most = self._count_most(sessions)
        pairs: dict[Pair, float] = {}  # with the log ratio of each
        ratios: dict[str, list[float]] = {name: [] for name in most}
        end = time.monotonic() + PATIENCE * self.seconds * len(most)
        while pending := [name for name in most if not self._is_enough(ratios[name], most[name])]:
            if len(pairs) >= 2 * FEWEST_ABBA_BLOCKS * len(most) and time.monotonic() >= end:
                break
            for name in self.random.sample(pending, len(pending)):
                pairs |= {pair: pair.compute_log_ratio(self.method) for pair in self._run_abba_block(name)}
            selected = self.select([*pairs])  # a later reading of the yardstick may change what counts
            ratios = {name: [pairs[pair] for pair in selected if pair.other == name] for name in most}
        return [*pairs]

    def select(self, pairs: Sequence[Pair]) -> Sequence[Pair]:
        """Return the pairs that count: those in which each thread had a core, and nothing else used it."""
        if self.watch:
            return [pair for pair in pairs if all(map(self.watch.is_alone, pair.readings))]
        return [pair for pair in pairs if pair.waiting <= DISTURBED] if self.needs_cores else pairs

    @property
    def needs_cores(self) -> bool:
        """Whether several threads of a model work at once; one that waits for a core leaves its work to the others."""
        return self.resting and self.method in ("threads", "wall")

    def _count_most(self, sessions: Mapping[str, SessionInfo]) -> dict[str, int]:
        """Return how many ABBA blocks fit into the time, by the other model's name."""
        block = {
            name: self.counts[name] * session.each + self.resting * max(RESUMED_SECONDS, session.each)
            for name, session in sessions.items()
        }
        compared = [name for name in self.workers if name != MODEL or len(self.workers) == 1]
        most = {}
        for name in compared:
            seconds = (WARMED if _needs_warm_caches(name) else 1.0) * 2 * (block[MODEL] + block[name])
            most[name] = min(max(int(self.seconds / seconds), FEWEST_ABBA_BLOCKS), MOST_ABBA_BLOCKS)
        return most

    def _run_abba_block(self, other: str) -> list[Pair]:
        first, second = self.random.sample([MODEL, other], 2)
        run = self._run_prepared_block if _needs_warm_caches(other) else self._run_block
        blocks = [run(name) for name in (first, second, second, first)]
        return [Pair(other, blocks[:2]), Pair(other, blocks[2:])]

    def _run_block(self, name: str) -> Block:
        return Block(name, self.workers[name].time(self.counts[name]))

    def _run_prepared_block(self, name: str) -> Block:
        """Run a block after one that warms the caches and does not count; read the yardstick before and after it."""
        worker, count = self.workers[name], self.counts[name]
        worker.time(count)
        if not self.watch:
            return Block(name, worker.time(count))
        before = self.watch.await_core(worker.read_yardstick)
        times = worker.time(count)
        return Block(name, times, (before, self.watch.read(worker.read_yardstick)))

    def _is_enough(self, ratios: Sequence[float], most: int) -> bool:
        """Return whether the pairs are as many as the time allows, or their median is known well enough."""
        known = len(ratios) >= 2 * STEADY_ABBA_BLOCKS and estimate_median_error(ratios) <= self.error
        return known or len(ratios) >= 2 * most


def _needs_warm_caches(other: str) -> bool:
    """Return whether a block that does not count precedes one that does."""
    return other not in (MODEL, BASELINE)
