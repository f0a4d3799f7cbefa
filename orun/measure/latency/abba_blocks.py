"""A launch: models in fresh processes, timed in ABBA blocks so that disturbances hit both alike.

Restarts average out what a process is stuck with (memory layout, placement of threads), so that the launch is the unit
of evidence. Within it blocks of about 15 ms alternate A B B A or B A A B at random. Either half of such a quad yields a
log ratio of two neighbours; of the two halves one has the model first and the other second, so that a drift cancels.
The launch's value is the median of these pairs. A core that is shared changes its speed by a third from one inference
to the next: a quad as a whole is disturbed twice as often as a pair, and too often for a median. Quads go on until the
median is known well enough.

What ran before leaves its data in the caches. Beside the baseline that does the same to both. Of a model that is much
faster than its reference it would hide up to a fifth of the speed-up, which users, whose model has its core to itself,
would see: there a block that counts comes after one that does not.

Where a process is stuck with the places of its data in memory, huge pages let most of that go, as far as the system has
them: see `orun.measure.latency.huge_pages`.

What is compared is the time on the CPU, by one of four methods:

thread  The calling thread does all: its CPU time. The processes are pinned to the quietest core.
threads Others work with the calling one, which never sleeps, as that of ONNX Runtime's own provider: it looks for the
        end of their work meanwhile. Its CPU time is the latency, but for what it waits for a core itself.
process One thread works at a time, and not always the calling one (a provider that is told to use one thread of its
        own): the CPU time of all threads together.
wall    Anything else (an accelerator, threads for which the calling one waits asleep, more threads than cores): wall
        time. The CPU time of all threads is work, not latency, and it counts spinning.

Where one thread works at a time, and blocks have ten inferences, these count by their fastest tenth, else by the
median. Who gets a core back after another process had it finds the caches filled with the other's data, and the first
inferences take longer: those of a model in float by more than those of its 8-bit form, whose weights are loaded sooner.
For a model of 0.4 ms the median of six launches lay from 1.61x to 1.65x at a load of 17 on two cores, the fastest tenth
from 1.58x to 1.62x; at a load of 19 a run by the median told 1.96x. Others make no inference faster, so the fast ones
are those of a model that has its core to itself.

Where several threads work, a model is stopped while another one's inferences are timed: its threads go on looking for
work for a while, on cores that the other one needs. What it runs at first when it goes on does not count: see
`orun.measure.workers`.

Several threads have a second state. One of them waits for a core, the others do its share, and an inference takes as
long as on fewer threads. On two cores an 8-bit model of 0.2 ms is 1.33 times as fast as in float while each thread has
a core, and 1.58 times while one waits. Which state a run meets depends on the other processes of the machine. It can
last for minutes, so the spread of the launches of one run does not show it. Therefore a pair of blocks counts only if
threads waited for less than `DISTURBED` of its time. The choice is made by a covariate, not by the outcome (Cochran
1957, "Analysis of Covariance: Its Nature and Uses", Biometrics 13:261-281), and fixes the condition that the ratio
holds for: each thread has a core. A launch with too few such pairs is disturbed, and no evidence.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Literal

import numpy as np

from orun.environment.processor import usable_cores
from orun.measure.benchmark_case import Opened, Subject
from orun.measure.latency.cpu_cores import quietest_core
from orun.measure.latency.cpu_time import Times, joined
from orun.measure.latency.cuda_streams import Streamed, together
from orun.measure.latency.quantiles import median_error
from orun.measure.workers import RESUMED_SECONDS, Worker

Method = Literal["thread", "threads", "process", "wall"]

MODEL, BASELINE = "model", "baseline"
BLOCK_SECONDS = 0.015
MOST_QUADS = 100
PATIENCE = 2.0  # in times of the time, for waiting for a core
FEWEST_QUADS = 4  # of a slow model, two are disturbed too often for a median: a launch starts two sessions anyhow
MANY = 10  # inferences in the shorter of two blocks from which the fastest of them tell their time
FASTEST = 0.1  # quantile of the inferences of a block that tells their time where one thread works at a time
DISTURBED = 0.05  # share of the time of two blocks that threads may wait for a core
SETTLED = 7 / 4  # blocks for each that counts, where caches are warmed first
STREAM_SECONDS = 0.1  # of inferences on a device's stream, of each model, twice in a launch
STEADY_QUADS = 8  # below which the standard error of their median is hardly known


@dataclass(frozen=True)
class Pace:
    """How long the parts of a launch are.

    Attributes:
        warmup: seconds of inference before the first sample of a session.
        samples: inferences of the model alone.
        alone: seconds they may take.
        quads: seconds that the quads against one other model may take undisturbed; with waiting, `PATIENCE` times as
            long.
        error: standard error of a log ratio at which they end.
        longest: seconds that warming up may take where a model still gets faster; 0 where that is known.
    """

    warmup: float
    samples: int
    alone: float
    quads: float
    error: float = 0.0
    longest: float = 0.0


@dataclass(frozen=True, eq=False)
class Launch:
    """What one launch measured, by the name of the model.

    Attributes:
        method: how time on the CPU was found.
        core: the core that all were pinned to, or None.
        opened: what opening the session took.
        alone: inferences of the model one after another, while the other models rest.
        beside: all inferences of each model in the quads.
        busy: seconds on the CPU of an inference.
        pairs: log ratio of the model's time to another's in each half of a quad, by the other's name.
        ratios: log ratio of the launch, by the other's name.
        waiting: seconds that threads waited for a core for each second of inference in the quads, or None.
        disturbed: whether too few pairs had a core for each thread. Figures are then of all pairs, else of those.
        streamed: inferences on the device's stream of those models for which it was asked.
    """

    method: Method
    core: int | None
    opened: Mapping[str, Opened]
    alone: Times
    beside: Mapping[str, Times]
    busy: Mapping[str, float]
    pairs: Mapping[str, Sequence[float]]
    ratios: Mapping[str, float]
    waiting: float | None
    disturbed: bool = False
    streamed: Mapping[str, Streamed] = field(default_factory=dict)


def launch(subjects: Mapping[str, Subject], pace: Pace, random: Random, method: Method | None = None) -> Launch:
    """Start a process for each model, time them alone and against one another, and end them.

    Args:
        subjects: by name; `model` is compared with each of the others.
        pace: how long the parts are.
        random: decides every order.
        method: how time on the CPU is found; by what works in an inference when None.

    Raises:
        OrunError: when a model cannot be opened or run.
    """
    with ExitStack() as stack:
        core = quietest_core()
        workers: dict[str, Worker] = {}
        opened: dict[str, Opened] = {}
        for name in _shuffled(subjects, random):
            workers[name] = stack.enter_context(Worker(subjects[name]))
            opened[name] = workers[name].open(pace.warmup, pace.longest)
        method = method or method_of(opened)
        resting = _shares_cores(opened, method)
        if resting:
            for worker in workers.values():
                worker.rest()
        alone = workers[MODEL].time(pace.samples, pace.alone)
        pinned = core if method == "thread" else None
        _prepare(workers, pinned)
        counts = _counts(opened)
        quads = _Rounds(workers, counts, method, pace, random, resting=resting)
        rounds = quads.run(opened)
        counted = quads.counted(rounds)
        others = [name for name in subjects if name != MODEL]
        disturbed = any(len(_pairs(counted, name, method)) < 2 * FEWEST_QUADS for name in others or [MODEL])
        counted = rounds if disturbed else counted
        beside = _beside(counted, subjects)
        pairs = {name: _pairs(counted, name, method) for name in others}
        return Launch(
            method=method,
            core=pinned,
            opened=opened,
            alone=alone,
            beside=beside,
            busy={name: _seconds(times, method, min(counts.values())) for name, times in beside.items()},
            pairs=pairs,
            ratios={name: float(np.median(of_halves)) for name, of_halves in pairs.items()},
            waiting=_waiting(joined(list(_beside(rounds, subjects).values()))),
            disturbed=disturbed,
            streamed=_streamed({name: workers[name] for name, one in subjects.items() if one.streamed}, pace, random),
        )


Block = tuple[str, Times]
Round = tuple[str, Sequence[Block]]


def _shuffled(names: Mapping[str, object], random: Random) -> list[str]:
    return random.sample(list(names), len(names))


def method_of(opened: Mapping[str, Opened]) -> Method:
    """The method by which the times of all of some models can be compared.

    More threads than cores keep one another waiting: that is the model's own time, whoever waits.
    """
    if all(one.work.alone for one in opened.values()):
        return "thread"
    crowded = any(one.work.busy > usable_cores() for one in opened.values())
    if all(one.work.alone or (one.processor and one.work.sleepless and not crowded) for one in opened.values()):
        return "threads"
    return "process" if all(one.processor and one.work.in_turn for one in opened.values()) else "wall"


def _shares_cores(opened: Mapping[str, Opened], method: Method) -> bool:
    """Whether threads of one model take cores from those of another."""
    several = method == "threads" or not all(one.work.alone for one in opened.values())
    return several and all(one.processor for one in opened.values())


def _prepare(workers: Mapping[str, Worker], core: int | None) -> None:
    """Make the workers ready for quads; the model alone was timed on the cores and pages that users would have."""
    for worker in workers.values():
        if core is not None:
            worker.pin(core)
        worker.collapse()
        worker.time(1)


def _counts(opened: Mapping[str, Opened]) -> dict[str, int]:
    """Inferences in a block of each model."""
    return {name: max(round(BLOCK_SECONDS / one.each), 1) for name, one in opened.items()}


@dataclass(frozen=True)
class _Rounds:
    """Quads of the model against each other one, in random order; of the model alone where there is no other.

    `resting` says that several threads of the processor work, so that models rest while another one is timed.
    """

    workers: Mapping[str, Worker]
    counts: Mapping[str, int]
    method: Method
    pace: Pace
    random: Random
    resting: bool

    def run(self, opened: Mapping[str, Opened]) -> list[Round]:
        """Quads until every ratio is known well enough, or the time is up."""
        block = {
            name: self.counts[name] * one.each + self.resting * max(RESUMED_SECONDS, one.each)
            for name, one in opened.items()
        }
        most = {
            name: min(max(int(self.pace.quads / self._seconds(block, name)), FEWEST_QUADS), MOST_QUADS)
            for name in self.workers
            if name != MODEL or len(self.workers) == 1
        }
        rounds: list[Round] = []
        pairs: dict[str, list[float]] = {name: [] for name in most}
        end = time.monotonic() + PATIENCE * self.pace.quads * len(most)
        while waiting := [name for name in most if len(pairs[name]) < 2 * most[name] and not self._known(pairs[name])]:
            if len(rounds) >= FEWEST_QUADS * len(most) and time.monotonic() >= end:
                break
            for name in self.random.sample(waiting, len(waiting)):
                rounds.append((name, self._quad(name)))
                pairs[name] += _pairs(self.counted(rounds[-1:]), name, self.method)
        return rounds

    def counted(self, rounds: Sequence[Round]) -> Sequence[Round]:
        """Return the pairs that count: where several threads work at once, those in which each had a core.

        Where the kernel does not tell how long threads wait, every pair counts.
        """
        if not self.resting or self.method not in ("threads", "wall"):
            return rounds
        halves = [(other, blocks[start : start + 2]) for other, blocks in rounds for start in (0, 2)]
        return [(other, half) for other, half in halves if (_waiting(_joined(half)) or 0.0) <= DISTURBED]

    def _seconds(self, block: Mapping[str, float], other: str) -> float:
        """Of a quad, by those of a block."""
        return (SETTLED if self._settles(other) else 1.0) * 2 * (block[MODEL] + block[other])

    def _settles(self, other: str) -> bool:
        """Whether a block warms the caches before one that counts."""
        return other not in (MODEL, BASELINE)

    def _quad(self, other: str) -> list[Block]:
        first, second = self.random.sample([MODEL, other], 2)
        return [
            self._block(first, settle=self._settles(other)),
            self._block(second, settle=self._settles(other)),
            self._block(second, settle=False),
            self._block(first, settle=self._settles(other)),
        ]

    def _block(self, name: str, *, settle: bool) -> Block:
        if settle:
            self.workers[name].time(self.counts[name])
        return name, self.workers[name].time(self.counts[name])

    def _known(self, pairs: Sequence[float]) -> bool:
        """Whether the median of the pairs is known well enough."""
        return len(pairs) >= 2 * STEADY_QUADS and median_error(pairs) <= self.pace.error


def _streamed(workers: Mapping[str, Worker], pace: Pace, random: Random) -> dict[str, Streamed]:
    """Inferences of each model on its device's stream, in an order and back: what changes evenly cancels."""
    for worker in workers.values():
        worker.stream(pace.warmup)
    order = _shuffled(workers, random)
    found = [(name, workers[name].streamed(STREAM_SECONDS)) for name in (*order, *reversed(order))]
    return {name: together([lot for one, lot in found if one == name]) for name in workers}


def _pairs(rounds: Sequence[Round], name: str, method: Method) -> list[float]:
    """Log ratio of the model's time to another's in each pair of blocks: two of a quad."""
    ours = [blocks for other, blocks in rounds if other == name]
    halves = [blocks[start : start + 2] for blocks in ours for start in range(0, len(blocks), 2)]
    return [_log_ratio(_of(MODEL, half), _of(name, half), method) for half in halves]


def _log_ratio(ours: Times, theirs: Times, method: Method) -> float:
    count = min(len(ours.wall), len(theirs.wall))
    return math.log(_seconds(ours, method, count) / _seconds(theirs, method, count))


def _beside(rounds: Sequence[Round], names: Iterable[str]) -> dict[str, Times]:
    """All inferences of each model."""
    every = [block for _, blocks in rounds for block in blocks]
    return {name: _of(name, every) for name in names}


def _of(name: str, blocks: Sequence[Block]) -> Times:
    return _joined([block for block in blocks if block[0] == name])


def _joined(blocks: Sequence[Block]) -> Times:
    return joined([times for _, times in blocks])


def _seconds(times: Times, method: Method, count: int) -> float:
    """Return what an inference takes by a method, of blocks of `count`: the least of many is less than that of few."""
    if method == "wall":
        return float(np.median(times.wall))
    if method == "threads" or count < MANY:
        return float(np.median(times.process if method == "process" else times.cpu))
    return float(np.quantile(times.cpu if method == "thread" else times.process, FASTEST, method="lower"))


def _waiting(times: Times) -> float | None:
    return None if times.waited is None else times.waited / float(times.wall.sum())
