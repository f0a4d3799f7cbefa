"""A launch: models in fresh processes, timed in turn so that what disturbs one disturbs the other.

Restarts average out what a process is stuck with (memory layout, placement of threads), so that the launch is the unit
of evidence. Within it blocks of about 15 ms alternate A B B A or B A A B at random. Either half of such a quad yields a
log ratio of two neighbours; of the two halves one has the model first and the other second, so that a drift cancels.
The launch's value is the median of these pairs. A core that is shared changes its speed by a third from one inference
to the next: a quad as a whole is disturbed twice as often as a pair, and too often for a median. Quads go on until the
median is known well enough.

What ran before leaves its data in the caches. Beside the baseline that does the same to both. Of a model that is much
faster than its reference it would hide up to a fifth of the speed-up, which users, whose model has its core to itself,
would see: there a block that counts comes after one that does not.

What is compared is the time on the CPU, by one of four methods:

thread  The calling thread does all: its CPU time, on the quietest core, to which the processes are pinned.
nodes   Several threads work on the CPU provider, for `SHORT` or longer. Their CPU time together is work, not latency,
        and it counts spinning while waiting; the wall time is that of an undisturbed inference only when no thread lost
        its core, which on a busy machine hardly ever happens for a whole inference. It does for single nodes, so the
        latency is pieced together: see `orun.measure.nodes.undisturbed`.
process One thread works at a time, and not always the calling one (a provider that is told to use one thread of its
        own): the CPU time of all threads together.
wall    Anything else (an accelerator, a provider with threads of its own): wall time. So is a short inference of
        several threads, which is left in peace as a node is, and whose nodes take too few of the profiler's
        microseconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Literal

import numpy as np

from orun.measure.machine import quietest_core
from orun.measure.nodes import undisturbed
from orun.measure.oncpu import Times, joined
from orun.measure.quantiles import median_error
from orun.measure.streams import Streamed, together
from orun.measure.workers import Opened, Subject, Worker

Method = Literal["thread", "nodes", "process", "wall"]

MODEL, BASELINE = "model", "baseline"
BLOCK_SECONDS = 0.015
PROFILED_BLOCK_SECONDS = 0.03  # nodes need a few inferences of each model, whatever they take
PROFILED_MOST = 8  # inferences in a profiled block: each writes an event for every node
MOST_QUADS = 100
PATIENCE = 2.0  # in times of the time, for waiting for a core
MOST_PROFILED_QUADS = 10
FEWEST_QUADS = 4  # of a slow model, two are disturbed too often for a median: a launch starts two sessions anyhow
SHORT = 0.002  # seconds of an inference that is short beside a time slice
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
        pairs: log ratio of the model's time to another's in each half of a quad, by the other's name; empty for
            `nodes`.
        ratios: log ratio of the launch, by the other's name.
        waiting: seconds that threads waited for a core for each second of inference in the quads, or None.
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
        alone = workers[MODEL].time(pace.samples, pace.alone)
        method = method or method_of(opened)
        _prepare(workers, method, core, pace.warmup)
        rounds = _Rounds(workers, _counts(opened, method), method, pace, random).run(opened)
        every = [block for _, blocks in rounds for block in blocks]
        beside = {name: _of(name, every) for name in subjects}
        busy = _busy(workers, beside, method)
        others = [name for name in subjects if name != MODEL]
        pairs = {} if method == "nodes" else {name: _pairs(rounds, name, method) for name in others}
        ratios = {
            name: float(np.median(pairs[name])) if pairs else math.log(busy[MODEL] / busy[name]) for name in others
        }
        return Launch(
            method=method,
            core=core if method == "thread" else None,
            opened=opened,
            alone=alone,
            beside=beside,
            busy=busy,
            pairs=pairs,
            ratios=ratios,
            waiting=_waiting(joined(list(beside.values()))),
            streamed=_streamed({name: workers[name] for name, one in subjects.items() if one.streamed}, pace, random),
        )


Block = tuple[str, Times]
Round = tuple[str, Sequence[Block]]


def _shuffled(names: Mapping[str, object], random: Random) -> list[str]:
    return random.sample(list(names), len(names))


def method_of(opened: Mapping[str, Opened]) -> Method:
    """The method by which the times of all of some models can be compared."""
    if all(one.work.alone for one in opened.values()):
        return "thread"
    if all(one.host for one in opened.values()):
        return "wall" if min(one.each for one in opened.values()) < SHORT else "nodes"
    return "process" if all(one.processor and one.work.in_turn for one in opened.values()) else "wall"


def _prepare(workers: Mapping[str, Worker], method: Method, core: int | None, warmup: float) -> None:
    for worker in workers.values():
        if method == "nodes":
            worker.profile(warmup)
        elif method == "thread" and core is not None:
            worker.pin(core)
            worker.time(1)


def _counts(opened: Mapping[str, Opened], method: Method) -> dict[str, int]:
    """Inferences in a block of each model."""
    if method == "nodes":
        return {
            name: min(max(round(PROFILED_BLOCK_SECONDS / one.each), 1), PROFILED_MOST) for name, one in opened.items()
        }
    return {name: max(round(BLOCK_SECONDS / one.each), 1) for name, one in opened.items()}


@dataclass(frozen=True)
class _Rounds:
    """Quads of the model against each other one, in random order; of the model alone where there is no other."""

    workers: Mapping[str, Worker]
    counts: Mapping[str, int]
    method: Method
    pace: Pace
    random: Random

    def run(self, opened: Mapping[str, Opened]) -> list[Round]:
        """Quads until every ratio is known well enough, or the time is up."""
        block = {name: self.counts[name] * opened[name].each for name in self.workers}
        cap = MOST_PROFILED_QUADS if self.method == "nodes" else MOST_QUADS
        most = {
            name: min(max(int(self.pace.quads / self._seconds(block, name)), FEWEST_QUADS), cap)
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
                pairs[name] += _pairs(rounds[-1:], name, self.method)
        return rounds

    def _seconds(self, block: Mapping[str, float], other: str) -> float:
        """Of a quad, by those of a block."""
        return (SETTLED if self._settles(other) else 1.0) * 2 * (block[MODEL] + block[other])

    def _settles(self, other: str) -> bool:
        """Whether a block warms the caches before one that counts; a profile could not leave it out."""
        return other not in (MODEL, BASELINE) and self.method != "nodes"

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
        """Whether the median of the pairs is known well enough; of nodes it is not what counts."""
        if self.method == "nodes" or len(pairs) < 2 * STEADY_QUADS:
            return False
        return median_error(pairs) <= self.pace.error


def _busy(workers: Mapping[str, Worker], beside: Mapping[str, Times], method: Method) -> dict[str, float]:
    if method == "nodes":
        return {name: undisturbed(worker.nodes().times) for name, worker in workers.items()}
    return {name: _median(times, method) for name, times in beside.items()}


def _streamed(workers: Mapping[str, Worker], pace: Pace, random: Random) -> dict[str, Streamed]:
    """Inferences of each model on its device's stream, in an order and back: what changes evenly cancels."""
    for worker in workers.values():
        worker.stream(pace.warmup)
    order = _shuffled(workers, random)
    found = [(name, workers[name].streamed(STREAM_SECONDS)) for name in (*order, *reversed(order))]
    return {name: together([lot for one, lot in found if one == name]) for name in workers}


def _pairs(rounds: Sequence[Round], name: str, method: Method) -> list[float]:
    """Log ratio of the model's time to another's in both halves of each of their quads."""
    halves = [half for other, blocks in rounds if other == name for half in (blocks[:2], blocks[2:])]
    return [math.log(_median(_of(MODEL, half), method) / _median(_of(name, half), method)) for half in halves]


def _of(name: str, blocks: Sequence[Block]) -> Times:
    return joined([times for one, times in blocks if one == name])


def _median(times: Times, method: Method) -> float:
    spent = {"thread": times.cpu, "process": times.process}
    return float(np.median(spent.get(method, times.wall)))


def _waiting(times: Times) -> float | None:
    return None if times.waited is None else times.waited / float(times.wall.sum())
