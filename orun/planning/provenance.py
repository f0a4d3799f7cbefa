"""Provenance of a stage: the stages before it, for kinds that are told of it, and as key components."""

from __future__ import annotations

import json
from collections.abc import Mapping

from blake3 import blake3

from orun.core.run_record import Verdict
from orun.core.serialization import Record, encode
from orun.environment import distributions, venvs
from orun.pipeline.model import Pipeline, Stage
from orun.planning.key_diff import HISTORY, VERDICTS
from orun.planning.plan import Done


class Lineage(Record, frozen=True):
    """What led to one stage.

    Attributes:
        pipeline: whose stage it is.
        before: the stages that led to it and that guard it, as far as they are done, in the order of the pipeline.
    """

    pipeline: Pipeline
    before: tuple[Done, ...]

    @classmethod
    def of(cls, pipeline: Pipeline, stage: Stage, done: Mapping[str, Done]) -> Lineage | None:
        """That of a stage whose kind asks for it, given the stages that are up to date; None for any other kind."""
        if not pipeline.kinds[stage.uses].spec.lineage:
            return None
        names: set[str] = set()
        waiting = list(stage.before)
        while waiting:
            name = waiting.pop()
            if name not in names and name in done:
                names.add(name)
                waiting += done[name].step.stage.before
        return cls(pipeline, tuple(done[one.id] for one in pipeline.stages if one.id in names))

    def text(self) -> bytes:
        """Every stage of it as JSON: what it was told, what it used, what it made, what it measured."""
        entries = [self._entry(one) for one in self.before]
        return json.dumps({"pipeline": self.pipeline.name, "stages": entries}, sort_keys=True).encode()

    def parts(self) -> dict[str, str]:
        """The same as parts of a key, so that a change names the stage behind it."""
        entries = [self._entry(one) for one in self.before]
        parts = {"pipeline": self.pipeline.name, HISTORY: ", ".join(str(entry["stage"]) for entry in entries)}
        for entry in entries:
            name, verdicts = entry["stage"], entry.pop("verdicts")
            parts[f"{HISTORY} of {name}"] = _digest(entry)
            if verdicts:
                parts[f"{VERDICTS} of {name}"] = _digest(verdicts)
        return parts

    def _entry(self, done: Done) -> dict[str, object]:
        stage, action = done.step.stage, done.action
        spec = self.pipeline.kinds[stage.uses].spec
        packages = venvs.packages(stage.environment)
        versions = [found for tool in spec.tools if (found := distributions.find(tool, packages))]
        return {
            "stage": stage.id,
            "uses": stage.uses,
            "needs": dict(stage.needs),
            "params": encode(stage.params),
            "tools": dict(versions) | dict(action.discovered.packages),
            "key": action.key,
            "tree": action.tree,
            "metrics": encode(action.metrics),
            "verdicts": [_without_place(verdict) for verdict in done.verdicts],
            "host": dict(action.host),
        }


def _digest(data: object) -> str:
    return blake3(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _without_place(verdict: Verdict) -> dict[str, object]:
    """A verdict without the line that asks for it: a comment above it changes nothing that was released."""
    fields: dict[str, object] = encode(verdict)
    return {name: value for name, value in fields.items() if name != "position"}
