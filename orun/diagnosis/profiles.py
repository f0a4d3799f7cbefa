"""Time of each node of models that run alternately, over launches of new processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random

import numpy as np

from orun.measure.benchmark_case import BenchmarkCase
from orun.measure.latency.cpu_cores import find_quietest_core
from orun.measure.latency.nodes import Node, Profile, average_undisturbed
from orun.measure.workers import WorkerProcess

BLOCK_SECONDS = 0.03
TICK = 1e-6  # seconds, resolution of the profiler
MOST = 8  # inferences in a block; each writes an event for every node


@dataclass(frozen=True)
class NodeTime:
    """A node and its undisturbed time in seconds."""

    node: Node
    seconds: float


@dataclass(frozen=True)
class ModelTimes:
    """Times of the nodes of a model, in the order in which they run.

    Attributes:
        nodes: each with the median of its time over the launches.
        totals: sum over the nodes, for each launch.
        outside: seconds of an inference outside of nodes, the median over the launches.
    """

    nodes: tuple[NodeTime, ...]
    totals: tuple[float, ...]
    outside: float

    @property
    def total(self) -> float:
        """Seconds of all nodes together."""
        return max(math.fsum(node.seconds for node in self.nodes), TICK)


@dataclass(frozen=True)
class Course:
    """Schedule of a profile.

    Each model has so many launches of so many inferences, after some seconds of warm-up.
    """

    launches: int
    runs: int
    warmup: float
    seed: int


def profile(
    subjects: Mapping[str, BenchmarkCase], course: Course, progress: Callable[[int, int, str], None]
) -> dict[str, ModelTimes]:
    """Measure the time of each node of each model.

    A node is much shorter than a time slice of the scheduler. In the fastest tenth of its runs no other program used
    its core, so that these are CPU times for nodes on the CPU.

    Raises:
        OrunError: when a model cannot be opened or run.
    """
    random = Random(course.seed)  # noqa: S311 - an order, not a secret
    profiles: dict[str, list[Profile]] = {name: [] for name in subjects}
    for number in range(course.launches):
        progress(number, course.launches, "launches")
        for name, launch in _launch(subjects, course, random).items():
            profiles[name].append(launch)
    return {name: combine_launches(launches) for name, launches in profiles.items()}


def _launch(subjects: Mapping[str, BenchmarkCase], course: Course, random: Random) -> dict[str, Profile]:
    core = find_quietest_core()
    with ExitStack() as stack:
        workers: dict[str, WorkerProcess] = {}
        counts: dict[str, int] = {}
        for name in random.sample(list(subjects), len(subjects)):
            worker = workers[name] = stack.enter_context(WorkerProcess(subjects[name]))
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


def combine_launches(launches: Sequence[Profile]) -> ModelTimes:
    """Return the times of the nodes that every launch has."""
    by_node = [dict(zip(launch.nodes, average_undisturbed(launch.times).tolist(), strict=True)) for launch in launches]
    nodes = [node for node in launches[0].nodes if all(node in times for times in by_node)]
    seconds = [float(np.median([times[node] for times in by_node])) for node in nodes]
    outside = [
        float(average_undisturbed(launch.totals[:, None])[0]) - sum(times.values())
        for launch, times in zip(launches, by_node, strict=True)
    ]
    return ModelTimes(
        nodes=tuple(map(NodeTime, nodes, seconds)),
        totals=tuple(max(math.fsum(times[node] for node in nodes), TICK) for times in by_node),
        outside=max(float(np.median(outside)), 0.0),
    )
