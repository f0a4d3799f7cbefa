"""Experiment: stages added to a pipeline for an investigation, run by the usual runner with the usual store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from orun import api
from orun.core.run_record import RunResult
from orun.core.serialization import replace
from orun.eventlog import Listener, ignore
from orun.pipeline.fragments import to_plain_default
from orun.pipeline.graph import find_reachable
from orun.pipeline.model import KindUse, Pipeline, Stage
from orun.stages import registry
from orun.stages.params import list_params


class OutOfTime(Exception):
    """The time of the investigation is used up."""


@dataclass
class Experiment:
    """Variants of a pipeline's stages, within a time limit."""

    pipeline: Pipeline  # its own stages run without their gates
    store: Path
    seconds: float  # time limit, from now on
    listener: Listener = ignore
    added: dict[str, Stage] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._end = monotonic() + self.seconds

    @property
    def left(self) -> float:
        """Seconds left."""
        return self._end - monotonic()

    def find_stage(self, name: str) -> Stage:
        """Return a stage of the pipeline or an added stage."""
        return self.added.get(name) or self.pipeline.stage(name)

    def add(self, like: Stage, **changes: Any) -> Stage:
        """Add a copy of a stage with some fields changed, without gates unless given; replaces an added stage's id."""
        stage = replace(like, **({"gates": ()} | changes))
        self.added[stage.id] = stage
        return stage

    def make(self, name: str, uses: str, like: Stage, needs: Mapping[str, str], params: Mapping[str, Any]) -> Stage:
        """Add a stage of a built-in kind with the kind's default parameters and those in `params` that the kind has.

        Target, environment and the files that the parameters name are those of `like`.
        """
        defaults = {
            parameter.name: None if parameter.required else to_plain_default(parameter.default)
            for parameter in list_params(registry.import_kind(uses).Params)
        }
        chosen = {key: value for key, value in params.items() if key in defaults}
        references = tuple(item for item in like.references if item.parameter.partition(".")[0] in chosen)
        return self.add(
            like,
            id=name,
            uses=uses,
            needs=dict(needs),
            after=(),
            params=defaults | chosen,
            references=references,
            cpus=1,
        )

    def run(self, names: Collection[str]) -> RunResult:
        """Bring these stages and all before them up to date; a failed stage is part of the result.

        Raises:
            OutOfTime: if no time is left.
            RunInterrupted: if the user stops it.
        """
        if self.left <= 0:
            raise OutOfTime
        wanted = self.list_stages_up_to(names)
        own = [
            replace(stage, gates=(), guards=())
            for stage in self.pipeline.stages
            if stage.id in wanted and stage.id not in self.added
        ]
        added = [self._limit_time(stage) for name, stage in self.added.items() if name in wanted]
        kinds = dict(self.pipeline.kinds)
        for uses in {stage.uses for stage in self.added.values()} - kinds.keys():
            module = registry.import_kind(uses)  # of the library; a pipeline file need not be able to name it
            kinds[uses] = KindUse("built-in", module.__name__, module.SPEC)
        derived = replace(self.pipeline, name=f"{self.pipeline.name}.blame", stages=(*own, *added), kinds=kinds)
        return api.run(derived, to=list(names), keep_going=True, store=self.store, on_event=self.listener)

    def list_stages_up_to(self, names: Collection[str]) -> set[str]:
        """Return these stages and all before them."""
        return find_reachable(
            names, {stage.id: stage.upstream for stage in (*self.pipeline.stages, *self.added.values())}
        )

    def _limit_time(self, stage: Stage) -> Stage:
        """Return the stage with a timeout at the time limit; a timeout is not in its key."""
        return replace(stage, timeout=min(stage.timeout or float("inf"), max(self.left, 1.0)))
