"""A stage kind in words: its inputs, parameters and metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orun.core.metrics import find_quantity
from orun.core.serialization import encode
from orun.environment.install_commands import list_extras
from orun.pipeline.fragments import describe_type, to_plain_default
from orun.report.table import wrap
from orun.text.units import show

if TYPE_CHECKING:
    from orun.core.metrics import Better, Unit
    from orun.report.terminal import Terminal
    from orun.stages.contract import Port
    from orun.stages.kind import Kind
    from orun.stages.params import Param, ParamType, TypeName

BOUND = {
    "portable": "this Python minor, system and architecture",
    "device": "this processor and accelerator",
    "measurement": "this machine",
}
UNITS: Mapping[TypeName, Unit] = {"duration": "s", "size": "B", "ratio": "ratio"}
UNIT_NOUNS: Mapping[Unit, str] = {
    "s": "time", "B": "bytes", "J": "energy", "ratio": "proportion", "x": "factor", "1/s": "rate",
}  # fmt: skip
INDENT = "    "


def format_default(param: Param) -> str:
    """Return whether a file must set it, and what it is otherwise."""
    if param.required:
        return "required"
    default = to_plain_default(param.default)
    unit = UNITS.get(param.type.name)
    if unit and isinstance(default, (int, float)):
        return f"default {show(default, unit)}"
    return f"default {default if isinstance(default, str) and default else json.dumps(default)}"


def format_port(port: Port) -> str:
    """Return what may be connected to an input."""
    return " or ".join(port.accepts) + (", optional" if port.optional else "")


def flatten_params(params: tuple[Param, ...], prefix: str = "") -> list[tuple[str, Param]]:
    """Return every parameter with its dotted name, those of nested mappings after the mapping."""
    rows: list[tuple[str, Param]] = []
    for param in params:
        name = f"{prefix}{param.name}"
        rows.append((name, param))
        rows += flatten_params(*_list_nested(param.type, name))
    return rows


def _list_nested(kind: ParamType, name: str) -> tuple[tuple[Param, ...], str]:
    """Return the fields below a parameter, and their prefix: `inputs.*.` in a mapping, `axes[].` in a list."""
    while kind.name in ("list", "map"):
        name += "[]" if kind.name == "list" else ".*"
        kind = kind.items[0]
    return kind.fields, f"{name}."


def list_metrics(kind: Kind) -> list[str] | None:
    """Return the metrics of a kind, by its default parameters if it depends on them; None when only a file can tell."""
    names = kind.metrics({param.name: param.default for param in kind.params if not param.required})
    return None if names is None else list(names)


def _describe_metrics(kind: Kind) -> str:
    """Return the metrics of a kind with what a gate on each needs: `p50, p90 (time, lower is better); nodes`."""
    names = list_metrics(kind)
    if names is None:
        return "what its parameters ask for"
    groups: dict[tuple[Unit | None, Better], list[str]] = {}
    for name in names:
        quantity = find_quantity(kind.spec.metrics, name)
        groups.setdefault((quantity.unit, quantity.better), []).append(name)
    return "; ".join(f"{', '.join(group)}{_describe_quantity(*facts)}" for facts, group in groups.items())


def _describe_quantity(unit: Unit | None, better: Better) -> str:
    facts = [*([UNIT_NOUNS[unit]] if unit else []), *([f"{better} is better"] if better != "neither" else [])]
    return f" ({', '.join(facts)})" if facts else ""


def format_kind(kind: Kind, terminal: Terminal) -> list[str]:
    """Return the documentation of a kind as text."""
    lines = [f"{terminal.paint(kind.name, 'strong')} ({kind.origin})", "", *kind.doc.strip().splitlines(), ""]
    if kind.spec.inputs:
        lines += ["inputs:"]
        for name, port in kind.spec.inputs.items():
            lines += _format_entry(name, format_port(port), port.doc, terminal)
        lines += [""]
    if kind.params:
        lines += ["parameters:"]
        for name, param in flatten_params(kind.params):
            lines += _format_entry(name, f"{describe_type(param.type)}; {format_default(param)}", param.doc, terminal)
        lines += [""]
    return [*lines, *(f"{name}: {text}" for name, text in list_facts(kind))]


def _format_entry(name: str, summary: str, doc: str, terminal: Terminal) -> list[str]:
    """Return a name with what it is, and below it what it does."""
    first, *more = wrap(f"{name}: {summary}", terminal.width - len(INDENT))
    head = f"  {terminal.paint(name, 'strong')}{first.removeprefix(name)}"
    text = [f"{INDENT * 2}{line}" for line in wrap(doc, terminal.width - 2 * len(INDENT))]
    return [head, *(f"{INDENT}{line}" for line in more), *(text if doc else [])]


def list_facts(kind: Kind) -> list[tuple[str, str]]:
    """Return what else is to be known of a kind, by name."""
    rows = [
        ("output", kind.spec.output),
        ("input domain", _describe_domain(kind)),
        ("metrics", _describe_metrics(kind)),
        ("tools in its key", ", ".join(tool.replace("|", " or ") for tool in kind.spec.tools)),
        ("extras", ", ".join(list_extras(kind.spec.tools, kind.spec.extra)) if kind.spec.extra else ""),
        ("result holds for", BOUND[kind.spec.stage_class]),
        ("deterministic", "" if kind.spec.deterministic else "no: the first result of equal inputs is kept"),
    ]
    return [(name, text) for name, text in rows if text]


def _describe_domain(kind: Kind) -> str:
    """Return what becomes of the input domain of a model, for a kind that yields one."""
    if kind.spec.output != "onnx":
        return ""
    primary = next(iter(kind.spec.inputs.values()), None)
    if primary is None or "onnx" not in primary.accepts:
        return "declared by its parameters" if any(param.name == "inputs" for param in kind.params) else ""
    kept = "the one that its input model carries"
    return kept if kind.spec.interface == "same" else f"{kept}, for the inputs that the result still has"


def to_data(kind: Kind) -> dict[str, Any]:
    """Return a kind as plain data."""
    return {
        "name": kind.name,
        "origin": kind.origin,
        "doc": kind.doc,
        "inputs": {
            name: {"accepts": list(port.accepts), "optional": port.optional, "doc": port.doc}
            for name, port in kind.spec.inputs.items()
        },
        "output": kind.spec.output,
        "params": [
            {
                "name": name,
                "type": describe_type(param.type),
                "required": param.required,
                "default": None if param.required else to_plain_default(param.default),
                "doc": param.doc,
            }
            for name, param in flatten_params(kind.params)
        ],
        "metrics": list_metrics(kind),
        "quantities": encode(kind.spec.metrics or {}),
        "tools": list(kind.spec.tools),
        "extra": kind.spec.extra,
        "class": kind.spec.stage_class,
        "deterministic": kind.spec.deterministic,
    }
