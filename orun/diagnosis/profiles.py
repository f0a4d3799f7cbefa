"""Time by node of models that run in turns, over launches of new processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random

import numpy as np

from orun.measure.benchmark_case import BenchmarkCase
from orun.measure.latency.cpu_cores import quietest_core
from orun.measure.latency.nodes import Node, Profile, undisturbed_times
from orun.measure.workers import Worker

BLOCK_SECONDS = 0.03
TICK = 1e-6  # seconds that the profiler tells apart
MOST = 8  # inferences in a block: each writes an event for every node


@dataclass(frozen=True)
class NodeTime:
    """A node and the time that it takes when it is left in peace, in seconds."""

    node: Node
    seconds: float


@dataclass(frozen=True)
class ModelTimes:
    """The nodes of a model in the order in which they run.

    Attributes:
        nodes: with the median over the launches of the time of each.
        totals: in each launch, the sum over the nodes.
        outside: seconds of an inference that are no node's, the median over the launches.
    """

    nodes: tuple[NodeTime, ...]
    totals: tuple[float, ...]
    outside: float

    @property
    def total(self) -> float:
        """Seconds of all nodes together."""
        return max(math.fsum(one.seconds for one in self.nodes), TICK)


@dataclass(frozen=True)
class Course:
    """How often models are launched, and what each launch does.

    Attributes:
        launches: of each model.
        runs: inferences of each model in a launch.
        warmup: seconds of inference before them.
        seed: of the orders.
    """

    launches: int
    runs: int
    warmup: float
    seed: int


def profile(
    subjects: Mapping[str, BenchmarkCase], course: Course, progress: Callable[[int, int, str], None]
) -> dict[str, ModelTimes]:
    """The time of each node of each model.

    A node is short beside a time slice: the fastest tenth of its times are those in which no other program took its
    core, so that they are times on the CPU wherever it runs there.

    Args:
        subjects: the models by their roles.
        course: how they are launched.
        progress: told before each launch.

    Raises:
        OrunError: when a model cannot be opened or run.
    """
    random = Random(course.seed)  # noqa: S311 - an order, not a secret
    found: dict[str, list[Profile]] = {name: [] for name in subjects}
    for number in range(course.launches):
        progress(number, course.launches, "launches")
        for name, one in _launch(subjects, course, random).items():
            found[name].append(one)
    return {name: _times(launches) for name, launches in found.items()}


def _launch(subjects: Mapping[str, BenchmarkCase], course: Course, random: Random) -> dict[str, Profile]:
    core = quietest_core()
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        counts: dict[str, int] = {}
        for name in random.sample(list(subjects), len(subjects)):
            worker = workers[name] = stack.enter_context(Worker(subjects[name]))
            opened = worker.open(course.warmup)
            counts[name] = min(max(round(BLOCK_SECONDS / opened.each), 1), MOST)
            if opened.work.alone and core is not None:
                worker.pin(core)
            worker.profile(course.warmup)
            if opened.processor and not opened.work.alone:
                worker.rest()
        left = dict.fromkeys(workers, course.runs)
        while any(left.values()):
            for name in random.sample(list(workers), len(workers)):
                count = min(counts[name], left[name])
                if count:
                    workers[name].time(count)
                    left[name] -= count
        return {name: worker.end_profile() for name, worker in workers.items()}


def _times(launches: Sequence[Profile]) -> ModelTimes:
    """Nodes that every launch has; the graph that ONNX Runtime makes of a model is the same in each."""
    by_node = [dict(zip(one.nodes, undisturbed_times(one.times).tolist(), strict=True)) for one in launches]
    nodes = [node for node in launches[0].nodes if all(node in found for found in by_node)]
    seconds = [float(np.median([found[node] for found in by_node])) for node in nodes]
    outside = [
        float(undisturbed_times(one.totals[:, None])[0]) - sum(found.values())
        for one, found in zip(launches, by_node, strict=True)
    ]
    return ModelTimes(
        nodes=tuple(map(NodeTime, nodes, seconds)),
        totals=tuple(max(math.fsum(found[node] for node in nodes), TICK) for found in by_node),
        outside=max(float(np.median(outside)), 0.0),
    )
