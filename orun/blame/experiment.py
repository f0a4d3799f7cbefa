"""Stages added to a pipeline for an investigation, run by the ordinary runner and kept in the ordinary store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

from orun import api
from orun.core.run_record import RunResult
from orun.core.serialization import replace
from orun.errors import Interrupted
from orun.eventlog.writer import Listener, ignore
from orun.pipeline.fragments import plain_default
from orun.pipeline.model import KindUse, Pipeline, Stage
from orun.stages import registry
from orun.stages.params import params_of

INTERNAL = ("diagnose/restored",)  # kinds that no file names


class OutOfTime(Exception):
    """The time of the investigation is used up."""


@dataclass
class Bench:
    """Runs variants of a pipeline's stages.

    Attributes:
        pipeline: the pipeline; its own stages run without their gates.
        store: the store's folder.
        end: when time is up, on the clock of `monotonic`.
        listener: hears what the runs say.
    """

    pipeline: Pipeline
    store: Path
    end: float
    listener: Listener = ignore
    added: dict[str, Stage] = field(default_factory=dict)

    @classmethod
    def open(cls, pipeline: Pipeline, store: Path, seconds: float, listener: Listener = ignore) -> Bench:
        """A bench whose time begins now."""
        return cls(pipeline, store, monotonic() + seconds, listener)

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.end - monotonic()

    def stage(self, name: str) -> Stage:
        """A stage of the pipeline or an added one by its id."""
        return self.added.get(name) or self.pipeline.stage(name)

    def add(self, like: Stage, **changes: Any) -> Stage:
        """A stage that is like another but for some fields; one of the same id is replaced."""
        made = replace(like, **({"gates": ()} | changes))
        self.added[made.id] = made
        return made

    def make(self, name: str, uses: str, like: Stage, needs: Mapping[str, str], params: Mapping[str, Any]) -> Stage:
        """A stage of a built-in kind whose parameters are the kind's own but for those given.

        Target, environment and the files that the parameters name are those of the stage that it is like.
        """
        known = {
            one.name: None if one.required else plain_default(one.default)
            for one in params_of(import_module(entry(uses)).Params)
        }
        given = {key: value for key, value in params.items() if key in known}
        kept = tuple(one for one in like.references if one.parameter.partition(".")[0] in given)
        return self.add(
            like, id=name, uses=uses, needs=dict(needs), after=(), params=known | given, references=kept, cpus=1
        )

    def run(self, names: Collection[str]) -> RunResult:
        """Bring these stages up to date with all before them; a stage that fails is a result.

        Raises:
            OutOfTime: when no time is left.
            Interrupted: when the user stops it.
        """
        if self.left <= 0:
            raise OutOfTime
        wanted = self._closure(names)
        limited = [self._limited(stage) for stage in (*self._own(wanted), *self._extra(wanted))]
        kinds = dict(self.pipeline.kinds) | {
            stage.uses: kind_use(stage.uses) for stage in self.added.values() if stage.uses not in self.pipeline.kinds
        }
        derived = replace(self.pipeline, name=f"{self.pipeline.name}.blame", stages=tuple(limited), kinds=kinds)
        result = api.run(derived, to=list(names), keep_going=True, store=self.store, on_event=self.listener)
        if result.exit_code == Interrupted.exit_code:
            raise Interrupted("interrupted")
        return result

    def _closure(self, names: Collection[str]) -> set[str]:
        wanted: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in wanted:
                wanted.add(name)
                waiting += self.stage(name).upstream
        return wanted

    def _own(self, wanted: Collection[str]) -> Sequence[Stage]:
        return [
            replace(stage, gates=(), guards=())
            for stage in self.pipeline.stages
            if stage.id in wanted and stage.id not in self.added
        ]

    def _extra(self, wanted: Collection[str]) -> Sequence[Stage]:
        return [stage for name, stage in self.added.items() if name in wanted]

    def _limited(self, stage: Stage) -> Stage:
        """What is added must end in time; the time limit of a stage is not in its key."""
        if stage.id not in self.added:
            return stage
        return replace(stage, timeout=min(stage.timeout or float("inf"), max(self.left, 1.0)))


def entry(uses: str) -> str:
    """The module of a built-in kind or of one of our own."""
    return f"orun.stages.{uses.replace('/', '.')}"


def kind_use(uses: str) -> KindUse:
    """What the planner must know of a built-in kind or of one of our own."""
    if uses in INTERNAL:
        return KindUse("built-in", entry(uses), import_module(entry(uses)).SPEC)
    kind = registry.find(uses, Path())
    return KindUse(kind.origin, kind.entry, kind.spec, kind.distribution)
