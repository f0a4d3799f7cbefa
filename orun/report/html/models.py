"""Models that a run yields, and the model that it began with: signature, operators, parameters, digests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from orun.report.html.onnx_outline import Outline, Value
from orun.report.html.source import Source
from orun.report.html.stored import StoredModel, read_sha256
from orun.report.html.templating import code
from orun.text.units import show

OPERATORS = 10  # types of operators of a model that are listed
MILLION = 1e6


def models(source: Source) -> list[Mapping[str, Any]]:
    """Return the models that are released, or that no other model is made of; then those that they were made of."""
    shown = []
    for name, role in source.roles.items():
        if name in source.models:
            with suppress(OSError):  # the store has lost its files meanwhile
                shown.append(_model(name, role, source.models[name]))
    return shown


def _model(stage: str, role: str, stored: StoredModel) -> Mapping[str, Any]:
    outline = stored.outline
    return {
        "stage": stage,
        "role": role,
        "signature": [*_ports("input", outline.inputs), *_ports("output", outline.outputs)],
        "opsets": ", ".join(f"{name} {version}" for name, version in outline.opsets.items()),
        "operators": _operators(outline),
        "parameters": _parameters(outline.parameters),
        "files": [
            (code(name), show(path.stat().st_size, "B"), code(read_sha256(path))) for name, path in stored.files.items()
        ],
    }


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
