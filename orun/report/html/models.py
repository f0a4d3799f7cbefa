"""Models that a run yields, and the model that it began with: signature, operators, parameters, digests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from orun.core.run_record import StageResult
from orun.report.html.onnx_outline import Outline, Value
from orun.report.html.source import Source
from orun.report.html.stored import StoredModel, model_makers, read_models
from orun.report.html.templating import code
from orun.text.units import show

MOST = 4  # models
OPERATORS = 10  # types of operators of a model that are listed
MILLION = 1e6


@dataclass(frozen=True)
class Model:
    """Model as texts.

    Attributes:
        stage: that made it.
        role: `released`, `result` or `original`.
        signature: port, name, type and shape of each input and output.
        opsets, operators, parameters: in words.
        files: path, size, SHA-256.
    """

    stage: str
    role: str
    signature: Sequence[Sequence[str]]
    opsets: str
    operators: str
    parameters: str
    files: Sequence[Sequence[str]]


def models(source: Source) -> list[Model]:
    """Return the models that are released, or that no other model is made of; then those that they were made of."""
    makers = {stage.stage: stage for stage in model_makers(source.store, source.result.stages)}
    used = {name for stage in makers.values() for name in stage.needs}
    released = {
        name
        for stage in source.result.stages
        if stage.uses.startswith("release/")
        for name in stage.needs[:1]  # the primary input
        if name in makers
    }
    roles = dict.fromkeys(released, "released") or {name: "result" for name in makers if name not in used}
    roles = {name: roles[name] for name in makers if name in roles}
    for stage in makers.values():
        if not makers.keys() & set(stage.needs):
            roles.setdefault(stage.stage, "original")
    chosen = list(roles)[:MOST]
    stored = read_models(source.store, [makers[name] for name in chosen])
    return [_model(makers[name], roles[name], stored[name]) for name in chosen if name in stored]


def _model(stage: StageResult, role: str, stored: StoredModel) -> Model:
    outline = stored.outline
    return Model(
        stage=stage.stage,
        role=role,
        signature=[*_ports("input", outline.inputs), *_ports("output", outline.outputs)],
        opsets=", ".join(f"{name} {version}" for name, version in outline.opsets.items()),
        operators=_operators(outline),
        parameters=_parameters(outline.parameters),
        files=[(code(name), show(size, "B"), code(digest)) for name, (size, digest) in stored.files.items()],
    )


def _ports(port: str, values: Sequence[Value]) -> Iterator[tuple[str, ...]]:
    for value in values:
        shape = "any" if value.shape is None else f"[{', '.join(value.shape)}]"
        yield value.name, port, value.type, shape


def _operators(outline: Outline) -> str:
    most = sorted(outline.operators.items(), key=lambda item: (-item[1], item[0]))
    names = [f"{name} {number}" for name, number in most[:OPERATORS]]
    more = [f"{len(most) - OPERATORS} more types"] if len(most) > OPERATORS else []
    return f"{sum(outline.operators.values()):,}: {', '.join([*names, *more])}"


def _parameters(numbers: Mapping[str, int]) -> str:
    types = sorted(((number, name) for name, number in numbers.items() if number), reverse=True)
    total = _number(sum(number for number, _ in types))
    return f"{total}: {', '.join(f'{name} {_number(number)}' for number, name in types)}" if types else "none"


def _number(number: int) -> str:
    return f"{number / MILLION:.1f} million" if number >= MILLION else f"{number:,}"
