"""Scheduler: which stage starts next, by the longest remaining path, as far as resources are free."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, merge

from orun.environment.resources import Resources
from orun.pipeline.model import Stage

UNKNOWN_SECONDS = 1.0  # assumed duration of a stage that never ran


@dataclass
class Schedule:
    """Stages of a run that are not settled yet."""

    stages: tuple[Stage, ...]  # in topological order
    seconds: Mapping[str, float]  # last duration of each stage, where known
    resources: Resources  # that stages may use together on this machine
    settled: set[str] = field(default_factory=set)  # ids of stages that are up to date or will not run
    running: dict[str, Stage] = field(default_factory=dict)  # stages whose processes run, by id
    machines: Mapping[str, Resources] = field(default_factory=dict)  # resources of other machines, by id
    queue_of: Callable[[Stage], Hashable] = lambda _: None  # of stages with the same, all or none can start

    def __post_init__(self) -> None:
        self._by_id = {stage.id: stage for stage in self.stages}
        self._waiting = {stage.id: self._by_id.keys() & set(stage.before) for stage in self.stages}
        self._after: dict[str, list[str]] = {stage.id: [] for stage in self.stages}
        for name, before in self._waiting.items():
            for upstream in before:
                self._after[upstream].append(name)
        self._seconds_to_end: dict[str, float] = {}
        for stage in reversed(self.stages):
            rest = max((self._seconds_to_end[name] for name in self._after[stage.id]), default=0.0)
            self._seconds_to_end[stage.id] = rest + self.seconds.get(stage.id, UNKNOWN_SECONDS)
        self._on: dict[str, dict[str, Stage]] = {}  # running stages by machine
        self._queues: dict[Hashable, list[Stage]] = {}  # ready stages, the longest remaining path first
        self._queue_of: dict[str, Hashable] = {}  # by ready stage
        self._new: list[Stage] = []
        for name, before in self._waiting.items():
            if not before:
                self._add_new(name)

    def _add_ready(self, stage: Stage) -> None:
        queue = self.queue_of(stage)
        self._queue_of[stage.id] = queue
        insort(self._queues.setdefault(queue, []), stage, key=self._rank)

    def _rank(self, stage: Stage) -> float:
        return -self._seconds_to_end[stage.id]

    def _add_new(self, name: str) -> None:
        self._new.append(self._by_id[name])
        self._add_ready(self._by_id[name])

    def _remove_ready(self, name: str) -> None:
        self._queues[self._queue_of.pop(name)].remove(self._by_id[name])

    def sort_again(self) -> None:
        """Sort ready stages into queues again, after what `queue_of` depends on has changed."""
        stages = self.list_ready()
        self._queues.clear()
        for stage in stages:
            self._add_ready(stage)

    @property
    def finished(self) -> bool:
        """Whether every stage is settled."""
        return len(self.settled) == len(self.stages)

    def is_ready(self, name: str) -> bool:
        """Return whether a stage may start: upstream settled, not running."""
        return name in self._queue_of

    def list_ready(self) -> tuple[Stage, ...]:
        """Return the stages that may start; the longest remaining path first."""
        return tuple(merge(*self._queues.values(), key=self._rank))

    def offer(self, start: Callable[[Stage], bool]) -> None:
        """Offer ready stages to a function, the longest remaining path first.

        Args:
            start: tries to start a stage; returns whether the next one of its queue may be able to start.
        """
        queues = [queue[::-1] for queue in self._queues.values() if queue]
        heads = [(self._rank(queue[-1]), number) for number, queue in enumerate(queues)]
        heapify(heads)
        while heads:
            _, number = heappop(heads)
            stage = queues[number].pop()
            if self.is_ready(stage.id) and not start(stage):
                continue
            if queues[number]:
                heappush(heads, (self._rank(queues[number][-1]), number))

    def drain_new(self) -> tuple[Stage, ...]:
        """Return stages that became ready since the last call and were not settled or started meanwhile."""
        new, self._new = self._new, []
        return tuple(stage for stage in new if stage.id not in self.settled and stage.id not in self.running)

    @property
    def has_new(self) -> bool:
        """Whether a stage became ready since the last `drain_new`."""
        return bool(self._new)

    def count_busy_cores(self, machine: str) -> int:
        """Return the cores that running stages use on a machine."""
        return sum(stage.cpus for stage in self.list_running(machine))

    def list_running(self, machine: str) -> tuple[Stage, ...]:
        """Return the stages that run on a machine."""
        return tuple(self._on.get(machine, {}).values())

    def fits(self, stage: Stage, machine: str = "") -> bool:
        """Return whether the free resources of a machine (empty: this one) suffice for a stage; see `fits_beside`."""
        return fits_beside(stage, self.list_running(machine), self.machines[machine] if machine else self.resources)

    def start(self, stage: Stage, machine: str = "") -> None:
        """Note that a stage runs on a machine."""
        self._remove_ready(stage.id)
        self.running[stage.id] = stage
        self._on.setdefault(machine, {})[stage.id] = stage

    def stop(self, name: str) -> None:
        """Note that a stage does not run any more and must start again."""
        self._end(name)
        self._add_new(name)

    def _end(self, name: str) -> bool:
        """Note that a stage does not run any more; return whether it ran."""
        for stages in self._on.values():
            stages.pop(name, None)
        return self.running.pop(name, None) is not None

    def settle(self, name: str) -> None:
        """Note that a stage is up to date, failed, or will not run."""
        if not self._end(name) and self.is_ready(name):
            self._remove_ready(name)
        self.settled.add(name)
        for after in self._after[name]:
            self._waiting[after].discard(name)
            if not self._waiting[after] and after not in self.settled:
                self._add_new(after)


def fits_beside(stage: Stage, running: Sequence[Stage], limit: Resources) -> bool:
    """Return whether a stage fits beside those that run; one that asks for more than there is runs alone."""
    stages = (stage, *running)
    return not running or (
        sum(each.cpus for each in stages) <= limit.cores
        and (limit.memory is None or not stage.memory or sum(each.memory or 0 for each in stages) <= limit.memory)
        and (not stage.gpus or sum(each.gpus for each in stages) <= limit.gpus)
    )
