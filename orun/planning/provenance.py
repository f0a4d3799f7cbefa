"""Provenance of a stage: the stages that led to it, for kinds that ask for it, and as key components."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from blake3 import blake3

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import KeyComponent, index_by_subject
from orun.core.serialization import Record, encode
from orun.core.verdict import Verdict
from orun.environment.distributions import ABSENT
from orun.pipeline.graph import find_reachable
from orun.pipeline.model import Pipeline, Stage
from orun.planning.plan import Done


class Provenance(Record, frozen=True):
    """Stages that led to a stage.

    Attributes:
        pipeline: the pipeline of the stage.
        needs: the stage behind each of its input ports.
        before: the stages that led to it and that guard it, as far as they are done, in the order of the pipeline.
    """

    pipeline: Pipeline
    needs: Mapping[str, str]
    before: tuple[Done, ...]

    @classmethod
    def of(cls, pipeline: Pipeline, stage: Stage, done: Mapping[str, Done]) -> Provenance | None:
        """Return the provenance of a stage from the stages that are done; None if its kind does not ask for it."""
        if not pipeline.kinds[stage.uses].spec.provenance:
            return None
        before = {name: done.keys() & item.step.stage.before for name, item in done.items()}
        names = find_reachable(done.keys() & stage.before, before)
        return cls(pipeline, stage.needs, tuple(done[stage.id] for stage in pipeline.stages if stage.id in names))

    def to_json(self) -> bytes:
        """Return every stage as JSON: its parameters, tools, artifact and measurements."""
        entries = [self._describe_stage(stage) for stage in self.before]
        content = {"pipeline": self.pipeline.name, "needs": dict(self.needs), "stages": entries}
        return json.dumps(content, sort_keys=True).encode()

    def iter_components(self) -> Iterator[KeyComponent]:
        """Yield the same as key components, a stage each, so that a change names the stage behind it."""
        entries = [self._describe_stage(stage) for stage in self.before]
        names = json.dumps([entry["stage"] for entry in entries], ensure_ascii=False)
        yield KeyComponent(ComponentKind.PIPELINE, value=self.pipeline.name)
        yield KeyComponent(ComponentKind.HISTORY, value=names)
        for entry in entries:
            name, verdicts = str(entry["stage"]), entry.pop("verdicts")
            yield KeyComponent(ComponentKind.PROVENANCE, name, value=_digest(entry))
            if verdicts:
                yield KeyComponent(ComponentKind.VERDICTS, name, value=_digest(verdicts))

    def _describe_stage(self, done: Done) -> dict[str, object]:
        stage, action = done.step.stage, done.action
        spec = self.pipeline.kinds[stage.uses].spec
        tools = index_by_subject(action.components, ComponentKind.TOOL)  # of the machine that ran the stage
        versions = (tools[tool].split(" ", 1) for tool in spec.tools if tools.get(tool, ABSENT) != ABSENT)
        packages = {name: version for name, version in action.implicit_deps.packages.items() if version != ABSENT}
        return {
            "stage": stage.id,
            "uses": stage.uses,
            "needs": dict(stage.needs),
            "params": encode(stage.params),
            "tools": dict(versions) | packages,
            "key": action.key,
            "tree": action.tree,
            "metrics": encode(action.metrics),
            "verdicts": [_describe_verdict(verdict) for verdict in done.verdicts],
            "host": dict(action.host),
        }


def iter_source_components(stage: Stage, done: Mapping[str, Done]) -> Iterator[KeyComponent]:
    """Yield a component for each source model that a stage runs: all that the convert stage was seen to use.

    The content of the ONNX model is not enough: code that computes the same in another way exports the same model.
    """
    for name in dict.fromkeys(source.stage for source in stage.sources.values()):
        if convert := done.get(name):
            seen = [convert.action.key, encode(convert.action.implicit_deps)]
            yield KeyComponent(ComponentKind.PROVENANCE, name, value=_digest(seen))


def _digest(data: object) -> str:
    return blake3(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _describe_verdict(verdict: Verdict) -> dict[str, object]:
    """Return a verdict with its finding, `why`, and what it does not tell, `caveat`, as sentences.

    Its place in the file is left out: a comment above it changes nothing in the release.
    """
    from orun.text.wording.caveats import describe_caveat
    from orun.text.wording.findings import describe_finding

    fields: dict[str, object] = encode(verdict)
    sentences = {"why": describe_finding(verdict.finding), "caveat": "; ".join(map(describe_caveat, verdict.caveats))}
    fields |= {name: text for name, text in sentences.items() if text}
    return {name: value for name, value in fields.items() if name != "position"}
