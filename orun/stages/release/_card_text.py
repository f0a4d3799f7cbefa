"""Text of a model card, section by section."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml
from onnx import TensorProto

from orun.core.metrics import Estimate, Metric
from orun.core.serialization import decode
from orun.stages._graph.input_domain import read_domain
from orun.stages._graph.io import iter_nodes, iter_tensors, list_input_names
from orun.stages._graph.signature import find_sizes, find_table_rows, list_inputs
from orun.stages.release._card_usage import format_usage
from orun.text.markdown import escape, format_table
from orun.text.units import show, show_amount, show_interval

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

    from orun.measure.session_settings import SessionSettings
    from orun.stages._graph.input_domain import InputValues

OPERATOR_TYPES = 8  # most frequent ones, which the card names
MEMBER = "\u21b3 "  # before a gate of a group


@dataclass(frozen=True)
class Texts:
    """Texts of a card that the pipeline provides; empty ones are left out.

    Attributes:
        title: heading; the name of the pipeline when empty.
        description, intended_use, limitations: sections in Markdown.
        license: identifier of the licence.
        language: codes of languages.
        tags: tags for the model hub.
        base_model: name, on its hub, of the model that this one was made from.
        appendix: Markdown at the end.
    """

    title: str
    description: str
    intended_use: str
    limitations: str
    license: str
    language: Sequence[str]
    tags: Sequence[str]
    base_model: str
    appendix: str


def render_card(
    model: ModelProto, size: int, settings: Sequence[SessionSettings], provenance: Mapping[str, Any], texts: Texts
) -> str:
    """Return the card in Markdown, by the stages in `provenance.json` and the texts that the pipeline provides."""
    stages: Sequence[Mapping[str, Any]] = provenance["stages"]
    name = " ".join(texts.title.split()) or provenance["pipeline"]
    blocks = [
        _format_front_matter(stages, texts, name),
        f"# {escape(name)}",
        texts.description.strip(),
        *_format_section("Intended use", texts.intended_use),
        *_format_section("Limitations", texts.limitations),
        *_format_model(model, size, settings),
        *_format_measurements(stages),
        *_format_gates(stages),
        *_format_stages(stages),
        texts.appendix.strip(),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _format_front_matter(stages: Sequence[Mapping[str, Any]], texts: Texts, name: str) -> str:
    """Return the metadata for model hubs, see https://huggingface.co/docs/hub/model-cards."""
    results = [
        {"type": f"{entry['stage']}.{metric}", "value": value.value, "name": f"{entry['stage']} {metric}"}
        for entry in stages
        for metric, value in _iter_metrics(entry)
        if math.isfinite(value.value)
    ]
    evaluated = {"task": {"type": "other"}, "dataset": {"name": "of the pipeline", "type": "other"}, "metrics": results}
    head = {
        "license": texts.license,
        "language": list(texts.language),
        "library_name": "onnx",
        "tags": ["onnx", *(tag for tag in texts.tags if tag != "onnx")],
        "base_model": texts.base_model,
        "model-index": [{"name": name, "results": [evaluated]}] if results else [],
    }
    kept = {key: value for key, value in head.items() if value}
    return f"---\n{yaml.safe_dump(kept, sort_keys=False, allow_unicode=True)}---"


def _format_model(model: ModelProto, size: int, settings: Sequence[SessionSettings]) -> Iterator[str]:
    yield "## Model"
    opsets = ", ".join(f"{item.domain or 'ai.onnx'} {item.version}" for item in model.opset_import)
    stored = sum(math.prod(tensor.dims) for tensor in iter_tensors(model) if tensor.dims)
    used = Counter(node.op_type for node in iter_nodes(model))
    most = sorted(used.items(), key=lambda item: (-item[1], item[0]))
    counts = ", ".join(f"{name} {count}" for name, count in most[:OPERATOR_TYPES])
    rows = [
        ("file", f"model.onnx, {show(size, 'B')}"),
        ("format", f"ONNX IR {model.ir_version}, operator sets {opsets}"),
        ("stored values", f"{stored:,}"),
        ("operators", f"{sum(used.values())}: {counts}{', ...' if len(most) > OPERATOR_TYPES else ''}"),
    ]
    yield format_table(("", ""), rows)
    ports = [("input", value) for value in list_inputs(model)]
    ports += [("output", value) for value in model.graph.output]
    yield format_table(
        ("", "name", "type", "shape"), ((port, value.name, *_describe_type(value)) for port, value in ports)
    )
    yield from _format_domain(model)
    yield from _format_settings(settings)
    yield format_usage(model, settings)


def _format_settings(settings: Sequence[SessionSettings]) -> Iterator[str]:
    """Yield the session settings that were found to be the fastest."""
    rows = [
        (
            ", ".join(provider.name for provider in item.searched),
            ", ".join(f"{name}: {str(value).lower()}" for name, value in item.session.items()) or "the default ones",
            ", ".join(provider.name for provider in item.providers) if item.providers != item.searched else "",
            item.processor,
        )
        for item in settings
    ]
    if rows:
        yield "These session settings were the fastest in `optimize/session`; `session.json` holds them:"
        yield format_table(("target", "session options", "providers instead", "found on"), rows)


def _format_domain(model: ModelProto) -> Iterator[str]:
    """Yield the declared input domain: values of inputs and sizes of dynamic axes."""
    declared, rows = read_domain(model).inputs, find_table_rows(model.graph)
    values = [
        (name, "values", _describe_values(declared[name], rows.get(name)))
        for name in list_input_names(model)
        if name in declared
    ]
    sizes = [(axis, "sizes tried", ", ".join(map(str, tried))) for axis, tried in find_sizes(model).items()]
    if values or sizes:
        yield "The model is made for these inputs, and was checked with them:"
        yield format_table(("input or axis", "", "domain"), [*values, *sizes])


def _describe_values(declared: InputValues, rows: int | None) -> str:
    """Return the declared values of an input in words; the rows of the table that it looks up bound it as well."""
    if declared.fill == "right-padded":
        return "0 and 1, all ones before the zeros"
    if declared.fill == "mask":
        return "0 and 1, at least one 1 in each row"
    table = (None, None) if rows is None else (0, rows - 1)
    bounds = [bound if own is None else own for own, bound in zip((declared.low, declared.high), table, strict=True)]
    if bounds == [None, None]:
        return "any"
    low, high = ("" if bound is None else f"{bound:g}" for bound in bounds)
    if low and high:
        return f"{low} to {high}"
    return f"at least {low}" if low else f"at most {high}"


def _describe_type(value: ValueInfoProto) -> tuple[str, str]:
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        return str(value.type.WhichOneof("value")).removesuffix("_type"), ""
    axes = (axis.dim_param or (str(axis.dim_value) if axis.HasField("dim_value") else "?") for axis in tensor.shape.dim)
    return TensorProto.DataType.Name(tensor.elem_type).lower(), f"[{', '.join(axes)}]"


def _format_measurements(stages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    rows = [
        (
            str(entry["stage"]),
            name,
            show(metric.value, metric.unit),
            show_interval(metric.interval, metric.unit),
            show(metric.reference.value, metric.unit) if metric.reference else "",
            str(entry["host"].get("cpu", "")) if metric.noise == "timing" else "",
        )
        for entry in stages
        for name, metric in _iter_metrics(entry)
    ]
    if rows:
        yield "## Measured"
        yield format_table(("stage", "metric", "value", "95 % interval", "reference model", "machine"), rows)


def _format_gates(stages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    verdicts = [verdict for entry in stages for verdict in entry["verdicts"]]
    rows = [
        (
            f"{MEMBER * verdict.get('depth', 0)}{verdict['stage']} {verdict['metric']}",
            _format_condition(verdict),
            _format_interval(verdict),
            verdict["outcome"],
        )
        for verdict in verdicts
    ]
    if rows:
        yield "## Gates"
        yield format_table(("gate", "threshold", "measured", "verdict"), rows)
    caveats = dict.fromkeys((verdict["stage"], verdict["caveat"]) for verdict in verdicts if verdict.get("caveat"))
    if caveats:
        yield "\n".join(f"- {escape(f'{stage}: {text}')}" for stage, text in caveats)


def _format_condition(verdict: Mapping[str, Any]) -> str:
    """Return the rule with its threshold, as `max 12ms`; empty for a group, whose name is its rule."""
    threshold = verdict.get("threshold", "")
    return f"{verdict.get('rule', '')} {threshold}{verdict.get('scope', '')}".strip() if threshold else ""


def _format_interval(verdict: Mapping[str, Any]) -> str:
    if verdict.get("measured") is None:
        return ""
    unit, written = verdict.get("unit", ""), verdict.get("threshold", "")
    value = show_amount(float(verdict["measured"]), unit, written)
    if verdict.get("interval") is None:
        return value
    return f"{value} ({show_interval(decode(Estimate, verdict['interval']), unit, written)})"


def _format_stages(stages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    rows = [
        (
            str(entry["stage"]),
            str(entry["uses"]),
            ", ".join(f"{name} {version}" for name, version in sorted(entry["tools"].items())),
            str(entry["tree"])[:12],
        )
        for entry in stages
    ]
    if rows:
        yield "## How it was made"
        yield format_table(("stage", "kind", "tools", "result"), rows)


def _iter_metrics(entry: Mapping[str, Any]) -> Iterator[tuple[str, Metric]]:
    yield from ((name, decode(Metric, data)) for name, data in sorted(entry["metrics"].items()))


def _format_section(title: str, text: str) -> list[str]:
    return [f"## {title}", text.strip()] if text.strip() else []
