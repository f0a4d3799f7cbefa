"""The text of a model card, section by section."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml
from onnx import TensorProto

from orun.core.metrics import Estimate, Metric
from orun.core.reason import Reason
from orun.core.serialization import decode
from orun.stages._graph.input_domain import read_domain
from orun.stages._graph.io import input_names, nodes, tensors
from orun.stages._graph.signature import inputs_of, sizes_of
from orun.text.markdown import escape, table
from orun.text.units import amount, show, span
from orun.text.wording.caveats import caveat

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

    from orun.stages._graph.feeds import Input
    from orun.stages.release.card import Params

MOST = 8  # operator types that are named
MEMBER = "\u21b3 "  # before a gate of a group, which stands below it: it is the group that must pass


def card(model: ModelProto, size: int, lineage: Mapping[str, Any], params: Params, more: str) -> str:
    """The whole card.

    Args:
        model: the model; its external data is not needed.
        size: bytes of its files.
        lineage: the stages that led to it, as `lineage.json` has them.
        params: what the file says about the model.
        more: Markdown to add at the end.
    """
    stages: Sequence[Mapping[str, Any]] = lineage["stages"]
    name = " ".join(params.title.split()) or lineage["pipeline"]
    blocks = [
        _front_matter(stages, params, name),
        f"# {escape(name)}",
        params.description.strip(),
        *_titled("Intended use", params.intended_use),
        *_titled("Limitations", params.limitations),
        *_model(model, size),
        *_measured(stages),
        *_gates(stages),
        *_made(stages),
        more.strip(),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _front_matter(stages: Sequence[Mapping[str, Any]], params: Params, name: str) -> str:
    """Metadata as model hubs read it, https://huggingface.co/docs/hub/model-cards."""
    results = [
        {"type": f"{entry['stage']}.{metric}", "value": value.value, "name": f"{entry['stage']} {metric}"}
        for entry in stages
        for metric, value in _metrics(entry)
        if math.isfinite(value.value)
    ]
    evaluated = {"task": {"type": "other"}, "dataset": {"name": "of the pipeline", "type": "other"}, "metrics": results}
    head = {
        "license": params.license,
        "language": list(params.language),
        "library_name": "onnx",
        "tags": ["onnx", *(tag for tag in params.tags if tag != "onnx")],
        "base_model": params.base_model,
        "model-index": [{"name": name, "results": [evaluated]}] if results else [],
    }
    kept = {key: value for key, value in head.items() if value}
    return f"---\n{yaml.safe_dump(kept, sort_keys=False, allow_unicode=True)}---"


def _model(model: ModelProto, size: int) -> Iterator[str]:
    yield "## Model"
    opsets = ", ".join(f"{item.domain or 'ai.onnx'} {item.version}" for item in model.opset_import)
    stored = sum(math.prod(tensor.dims) for tensor in tensors(model) if tensor.dims)
    used = Counter(node.op_type for node in nodes(model))
    most = sorted(used.items(), key=lambda item: (-item[1], item[0]))
    told = ", ".join(f"{name} {count}" for name, count in most[:MOST])
    rows = [
        ("file", f"model.onnx, {show(size, 'B')}"),
        ("format", f"ONNX IR {model.ir_version}, operator sets {opsets}"),
        ("stored values", f"{stored:,}"),
        ("operators", f"{sum(used.values())}: {told}{', ...' if len(most) > MOST else ''}"),
    ]
    yield table(("", ""), rows)
    taken = set(input_names(model))
    ports = [("input", value) for value in model.graph.input if value.name in taken]
    ports += [("output", value) for value in model.graph.output]
    yield table(("", "name", "type", "shape"), ((way, value.name, *_type(value)) for way, value in ports))
    yield from _domain(model)
    feeds = ", ".join(f'"{value.name}": ...' for way, value in ports if way == "input")
    yield (
        "```python\nimport onnxruntime\n\n"
        'session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])\n'
        f"outputs = session.run(None, {{{feeds}}})\n```"
    )


def _domain(model: ModelProto) -> Iterator[str]:
    """The values that inputs take and the sizes of dynamic axes, where the model declares them."""
    declared = read_domain(model).inputs
    values = [(item.name, "values", _values(item)) for item in inputs_of(model) if item.name in declared]
    sizes = [(axis, "sizes tried", ", ".join(map(str, one))) for axis, one in sizes_of(model).items()]
    if values or sizes:
        yield "The model is made for these inputs, and was checked with such:"
        yield table(("input or axis", "", "domain"), [*values, *sizes])


def _values(item: Input) -> str:
    if item.mask:
        return "0 and 1, the ones in front of the zeros" if item.padded else "0 and 1, at least one 1 in a row"
    if item.low is None and item.high is None:
        return "any"
    low, high = ("" if bound is None else f"{bound:g}" for bound in (item.low, item.high))
    if low and high:
        return f"{low} to {high}"
    return f"from {low} on" if low else f"up to {high}"


def _type(value: ValueInfoProto) -> tuple[str, str]:
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        return str(value.type.WhichOneof("value")).removesuffix("_type"), ""
    axes = (axis.dim_param or (str(axis.dim_value) if axis.HasField("dim_value") else "?") for axis in tensor.shape.dim)
    return TensorProto.DataType.Name(tensor.elem_type).lower(), f"[{', '.join(axes)}]"


def _measured(stages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    rows = [
        (
            str(entry["stage"]),
            name,
            show(metric.value, metric.unit),
            span(metric.interval, metric.unit),
            _beside(metric),
            _machine(entry) if metric.noise == "timing" else "",
        )
        for entry in stages
        for name, metric in _metrics(entry)
    ]
    if rows:
        yield "## Measured"
        yield table(("stage", "metric", "value", "95 % interval", "reference model", "machine"), rows)


def _beside(metric: Metric) -> str:
    return show(metric.reference.value, metric.unit) if metric.reference else ""


def _machine(entry: Mapping[str, Any]) -> str:
    return str(entry["host"].get("cpu", ""))


def _gates(stages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    verdicts = [verdict for entry in stages for verdict in entry["verdicts"]]
    rows = [
        (
            f"{MEMBER * verdict.get('depth', 0)}{verdict['stage']} {verdict['metric']}",
            _condition(verdict),
            _interval(verdict),
            verdict["outcome"],
        )
        for verdict in verdicts
    ]
    if rows:
        yield "## Gates"
        yield table(("gate", "threshold", "measured", "verdict"), rows)
    told = {(verdict["stage"], text): None for verdict in verdicts if (text := _caveats(verdict))}
    if told:
        yield "\n".join(f"- {escape(f'{stage}: {text}')}" for stage, text in told)


def _caveats(verdict: Mapping[str, Any]) -> str:
    return "; ".join(map(caveat, decode(tuple[Reason, ...], verdict.get("caveats", []))))


def _condition(verdict: Mapping[str, Any]) -> str:
    """`max 12ms`; empty for a group, which is named by its rule."""
    threshold = verdict.get("threshold", "")
    return f"{verdict.get('rule', '')} {threshold}{verdict.get('scope', '')}".strip() if threshold else ""


def _interval(verdict: Mapping[str, Any]) -> str:
    if verdict.get("measured") is None:
        return ""
    unit, written = verdict.get("unit", ""), verdict.get("threshold", "")
    told = amount(float(verdict["measured"]), unit, written)
    if verdict.get("interval") is None:
        return told
    return f"{told} ({span(decode(Estimate, verdict['interval']), unit, written)})"


def _made(stages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
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
        yield table(("stage", "kind", "tools", "result"), rows)


def _metrics(entry: Mapping[str, Any]) -> Iterator[tuple[str, Metric]]:
    yield from ((name, decode(Metric, data)) for name, data in sorted(entry["metrics"].items()))


def _titled(title: str, text: str) -> list[str]:
    return [f"## {title}", text.strip()] if text.strip() else []
