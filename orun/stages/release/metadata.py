"""Write into a model what it is and where it comes from: doc string, version, properties, provenance.

All of it lies in the model file itself, as ONNX has places for it, and goes wherever the file goes: `doc_string`,
`model_version`, `domain`, and `metadata_props`. The provenance is one property, `orun.provenance`: as JSON, every stage
that led to the model with its kind, parameters, tools and their versions, key and digest. Stages after this one keep
these properties, whether they simplify, fuse, quantize or change the operator set.

The weights are not touched: external data stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from orun.core.metrics import Metric
from orun.errors import StageFailed
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, Range

if TYPE_CHECKING:
    from onnx import ModelProto

PROVENANCE = "orun.provenance"
RECORDED = ("stage", "uses", "params", "tools", "key", "tree")  # of a stage's entry in the lineage

SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to describe.")},
    tools=("onnx",),
    extra="cpu",
    preload=("onnx",),
    lineage=True,
    metrics=("size", "nodes"),
)


@dataclass(frozen=True)
class Params:
    """What to write; what is left out stays as it is in the model."""

    doc_string: Annotated[str | None, Doc("What the model does, for people (Markdown).")] = None
    model_version: Annotated[
        int | None, Doc("Version of the model as ONNX counts it: a whole number."), Range(0, 2**63 - 1)
    ] = None
    domain: Annotated[str | None, Doc("Name space of the model as a reversed host name (`org.example`).")] = None
    properties: Annotated[dict[str, str], Doc("Entries of `metadata_props`; those of other names stay.")] = field(
        default_factory=dict
    )
    provenance: Annotated[bool, Doc(f"Whether to write the property `{PROVENANCE}`.")] = True


def run(context: Context, params: Params) -> Mapping[str, Metric]:
    """Write the model with its description to `context.result`."""
    from orun.stages._graph.io import load_graph, save_graph, weigh

    model = load_graph(context.model())
    _describe(model, params)
    properties = dict(params.properties)
    if PROVENANCE in properties:
        raise StageFailed(context.stage, f"`{PROVENANCE}` is written by orun", hint="name the property otherwise")
    if params.provenance:
        properties[PROVENANCE] = _provenance(context)
    _set_properties(model, properties)
    save_graph(model, context.model(), context.result)
    return weigh(context.result)


def _describe(model: ModelProto, params: Params) -> None:
    for name in ("doc_string", "model_version", "domain"):
        value = getattr(params, name)
        if value is not None:
            setattr(model, name, value)


def _set_properties(model: ModelProto, properties: Mapping[str, str]) -> None:
    """Set entries of `metadata_props`, all of them sorted by name."""
    kept = {entry.key: entry.value for entry in model.metadata_props} | dict(properties)
    del model.metadata_props[:]
    for name in sorted(kept):
        model.metadata_props.add(key=name, value=kept[name])


def _provenance(context: Context) -> str:
    if context.lineage is None:
        raise StageFailed(context.stage, "the provenance needs the lineage of the model, and none was given")
    lineage = json.loads(context.lineage.read_bytes())
    stages = [_recorded(entry) for entry in lineage["stages"]]
    return json.dumps({"pipeline": lineage["pipeline"], "stages": stages}, sort_keys=True, ensure_ascii=False)


def _recorded(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in RECORDED if name in entry}
