"""Scheduler: which stage starts next, the longest way to the end first, as far as resources are free."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field

from orun.pipeline.model import Stage

UNKNOWN_SECONDS = 1.0  # how long a stage that never ran is taken to last


@dataclass
class Schedule:
    """The stages that are still to come.

    Attributes:
        stages: all stages of the run in topological order.
        seconds: how long each took last time, where known.
        cores: how many cores the run may keep busy.
        memory: bytes that stages may hold together, as far as they say how much that is; None for any number.
        gpus: how many GPUs there are.
        settled: ids of stages that are up to date or will not run.
        running: stages whose processes run, by id.
    """

    stages: tuple[Stage, ...]
    seconds: Mapping[str, float]
    cores: int
    memory: int | None = None
    gpus: int = 1
    settled: set[str] = field(default_factory=set)
    running: dict[str, Stage] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_id = {stage.id: stage for stage in self.stages}
        self._waiting = {stage.id: self._by_id.keys() & set(stage.before) for stage in self.stages}
        self._after: dict[str, list[str]] = {stage.id: [] for stage in self.stages}
        for name, before in self._waiting.items():
            for upstream in before:
                self._after[upstream].append(name)
        self._way = self._longest_ways()
        self._ready: list[Stage] = []
        self._news: list[Stage] = []
        for name, before in self._waiting.items():
            if not before:
                self._offer(name)

    def _offer(self, name: str) -> None:
        self._news.append(self._by_id[name])
        insort(self._ready, self._by_id[name], key=lambda stage: -self._way[stage.id])

    def _longest_ways(self) -> dict[str, float]:
        """Seconds from the start of each stage to the end of the run along its longest way."""
        ways: dict[str, float] = {}
        for stage in reversed(self.stages):
            rest = max((ways[name] for name in self._after[stage.id]), default=0.0)
            ways[stage.id] = rest + self.seconds.get(stage.id, UNKNOWN_SECONDS)
        return ways

    @property
    def finished(self) -> bool:
        """Whether every stage is settled."""
        return len(self.settled) == len(self.stages)

    def ready(self) -> tuple[Stage, ...]:
        """Stages whose upstream is settled and that are not running, those with the longest way to the end first."""
        return tuple(self._ready)

    def news(self) -> tuple[Stage, ...]:
        """Stages that have become ready since the last call, and have not been settled or started meanwhile."""
        news, self._news = self._news, []
        return tuple(one for one in news if one.id not in self.settled and one.id not in self.running)

    @property
    def has_news(self) -> bool:
        """Whether a stage has become ready since then."""
        return bool(self._news)

    @property
    def full(self) -> bool:
        """Whether no core is free for one stage more."""
        return sum(one.cpus for one in self.running.values()) >= self.cores

    def fits(self, stage: Stage) -> bool:
        """Whether enough of the machine is free; a stage that wants more than there is runs alone."""
        stages = (stage, *self.running.values())
        return not self.running or (
            sum(one.cpus for one in stages) <= self.cores
            and (self.memory is None or not stage.memory or sum(one.memory or 0 for one in stages) <= self.memory)
            and (not stage.gpus or sum(one.gpus for one in stages) <= self.gpus)
        )

    def start(self, stage: Stage) -> None:
        """Take note that a stage runs."""
        self._ready.remove(stage)
        self.running[stage.id] = stage

    def settle(self, name: str) -> None:
        """Take note that a stage is up to date, failed, or will not run."""
        if self.running.pop(name, None) is None and self._by_id[name] in self._ready:
            self._ready.remove(self._by_id[name])
        self.settled.add(name)
        for after in self._after[name]:
            self._waiting[after].discard(name)
            if not self._waiting[after] and after not in self.settled:
                self._offer(after)
