"""Models that a run yields, and the model that it began with: signature, operators, parameters, digests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from orun.report.html.onnx_outline import Outline, Value
from orun.report.html.source import Source
from orun.report.html.stored import StoredModel, read_sha256
from orun.report.html.templating import render_code
from orun.text.units import show

OPERATORS = 10  # types of operators of a model that are listed
MILLION = 1e6


def view_models(source: Source) -> list[Mapping[str, Any]]:
    """Return the models that are released, or that no other model is made of; then those that they were made of."""
    shown = []
    for name, role in source.stored.roles.items():
        if name in source.stored.models:
            with suppress(OSError):  # the store has lost its files meanwhile
                shown.append(_view_model(name, role, source.stored.models[name]))
    return shown


def _view_model(stage: str, role: str, stored: StoredModel) -> Mapping[str, Any]:
    outline = stored.outline
    return {
        "stage": stage,
        "role": role,
        "signature": [*_iter_ports("input", outline.inputs), *_iter_ports("output", outline.outputs)],
        "opsets": ", ".join(f"{name} {version}" for name, version in outline.opsets.items()),
        "operators": _format_operators(outline),
        "parameters": _format_parameters(outline.parameters),
        "files": [
            (render_code(name), show(path.stat().st_size, "B"), render_code(read_sha256(path)))
            for name, path in stored.files.items()
        ],
    }


def _iter_ports(port: str, values: Sequence[Value]) -> Iterator[tuple[str, ...]]:
    for value in values:
        shape = "any" if value.shape is None else f"[{', '.join(value.shape)}]"
        yield value.name, port, value.type, shape


def _format_operators(outline: Outline) -> str:
    most = sorted(outline.operators.items(), key=lambda item: (-item[1], item[0]))
    names = [f"{name} {number}" for name, number in most[:OPERATORS]]
    more = [f"{len(most) - OPERATORS} more types"] if len(most) > OPERATORS else []
    return f"{sum(outline.operators.values()):,}: {', '.join([*names, *more])}"


def _format_parameters(numbers: Mapping[str, int]) -> str:
    types = sorted(((number, name) for name, number in numbers.items() if number), reverse=True)
    total = _format_number(sum(number for number, _ in types))
    return f"{total}: {', '.join(f'{name} {_format_number(number)}' for number, name in types)}" if types else "none"


def _format_number(number: int) -> str:
    return f"{number / MILLION:.1f} million" if number >= MILLION else f"{number:,}"
