"""Source models: what a convert stage converts, run by a stage in place of the ONNX model at one of its inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from orun.core.serialization import replace
from orun.core.source_model import SourceModel
from orun.core.targets import Target
from orun.measure.plugins import is_on_processor
from orun.pipeline.instances import Instance
from orun.pipeline.model import Reference, Stage
from orun.pipeline.nodes import Map, Span
from orun.pipeline.problems import Problems
from orun.stages.kind import Kind
from orun.stages.registry import list_kinds
from orun.text.suggestions import format_choices

ONNX_RUNTIME = "onnxruntime"  # the runtime of a model that is not run by another framework
TARGET_OF_REFERENCES = "reference_target"


def connect_sources(
    instances: Collection[Instance], stages: Mapping[str, Stage], problems: Problems
) -> dict[str, Stage]:
    """Return the stages, those that run source models with what they need of the convert stages."""
    kinds = {instance.id: instance.kind for instance in instances if instance.kind}
    connected = dict(stages)
    for instance in instances:
        if not (stage := stages.get(instance.id)):
            continue
        for name, runtime, span in _iter_wanted(instance.node.map("with"), stage, kinds[stage.id], problems):
            convert = stages.get(stage.needs[name])
            if convert and _is_possible(stage, name, runtime, kinds[convert.id], span, problems):
                connected[stage.id] = _connect(connected[stage.id], name, runtime, convert, kinds[convert.id])
    return connected


def _iter_wanted(params: Map, stage: Stage, kind: Kind, problems: Problems) -> Iterator[tuple[str, str, Span]]:
    """Yield input, runtime and place of each model that another framework is to run."""
    for port, declared in kind.spec.inputs.items():
        if declared.runtime:
            yield from _iter_wanted_at(port, declared.runtime, params, stage, problems)


def _iter_wanted_at(
    port: str, parameter: str, params: Map, stage: Stage, problems: Problems
) -> Iterator[tuple[str, str, Span]]:
    value: Any = stage.params.get(parameter)
    node = params.get(parameter)
    if node is None or not value or value == ONNX_RUNTIME:
        return
    inputs = [name for name in stage.needs if name.partition(".")[0] == port]
    if not isinstance(node, Map):
        if not inputs:
            problems.add(
                node.span,
                f"{parameter!r} says what runs the {port}, and none is connected",
                expected=f"`needs: {{model: STAGE, {port}: STAGE}}`",
            )
        yield from ((name, value, node.span) for name in inputs)
        return
    for name, entry in node.entries.items():
        if name not in inputs:
            problems.add(
                entry.key, f"{name!r} is not a connected {port}", expected=format_choices(inputs) or f"`{port}`"
            )
        elif isinstance(value, Mapping) and value.get(name) not in (None, ONNX_RUNTIME):
            yield name, value[name], entry.value.span


def _is_possible(stage: Stage, port: str, runtime: str, kind: Kind, span: Span, problems: Problems) -> bool:
    """Return whether the kind of a convert stage and the target of the model allow a runtime; note why not."""
    if runtime not in kind.spec.runtimes:
        able = [other.name for other in list_kinds() if runtime in other.spec.runtimes]
        problems.add(
            span,
            f"{stage.needs[port]!r} ({kind.name}) has no source model that {runtime} runs",
            expected=format_choices(kind.spec.runtimes) or f"`{port}:` a stage of {format_choices(able)}",
        )
        return False
    target = choose_reference_target(stage)
    if not is_on_processor(target.providers[0]):
        problems.add(
            span,
            f"{runtime} runs on the CPU here, and target {target.name!r} on {target.providers[0].name}",
            expected=f"`{TARGET_OF_REFERENCES}:` a target of the CPU, such as `cpu`",
        )
        return False
    return True


def choose_reference_target(stage: Stage) -> Target:
    """Return the target on which the references of a stage run."""
    return stage.extra_targets.get(TARGET_OF_REFERENCES) or stage.target or Target("cpu")


def _connect(stage: Stage, port: str, runtime: str, convert: Stage, kind: Kind) -> Stage:
    """Return a stage with the source model of a convert stage at one of its inputs."""
    held = {name: f"{name}@{port}" for name in convert.needs}
    source = SourceModel(convert.id, kind.entry, runtime, convert.params, held, kind.spec.runtimes[runtime])
    files = (Reference(f"{item.parameter}@{port}", item.path, item.function) for item in convert.references)
    return replace(
        stage,
        needs={**stage.needs, **{held[name]: before for name, before in convert.needs.items()}},
        references=(*stage.references, *files),
        sources={**stage.sources, port: source},
    )
