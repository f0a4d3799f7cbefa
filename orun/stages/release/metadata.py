"""Write a description and the provenance into a model: doc string, version, properties.

They are stored in fields of the model file itself: `doc_string`, `model_version`, `domain` and `metadata_props`. The
property `orun.provenance` is JSON with every stage that led to the model: kind, parameters, tools and their versions,
key and digest. Later stages keep these fields.

Weights, external data and the settings of `optimize/session` stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from orun.core.metrics import LOWER, SIZE
from orun.stages.contract import Context, Port, Spec
from orun.stages.params import Doc, Range

if TYPE_CHECKING:
    from onnx import ModelProto

PROVENANCE = "orun.provenance"
RECORDED = ("stage", "uses", "params", "tools", "key", "tree")  # fields of a stage's entry in the provenance

SPEC = Spec(
    inputs={"model": Port(("onnx",), "The model to describe.")},
    tools=("onnx",),
    extra="cpu",
    preload=("onnx",),
    provenance=True,
    metrics={"size": SIZE, "nodes": LOWER},
)


@dataclass(frozen=True)
class Params:
    """Parameters of `release/metadata`. Fields without a value stay as they are in the model."""

    doc_string: Annotated[str | None, Doc("Description of the model, in Markdown.")] = None
    model_version: Annotated[int | None, Doc("Version of the model: a whole number."), Range(0, 2**63 - 1)] = None
    domain: Annotated[str | None, Doc("Name space of the model as a reversed host name (`org.example`).")] = None
    properties: Annotated[dict[str, str], Doc("Entries of `metadata_props` to add or replace.")] = field(
        default_factory=dict
    )
    provenance: Annotated[bool, Doc(f"Whether to write the property `{PROVENANCE}`.")] = True


def run(context: Context, params: Params) -> Mapping[str, float]:
    """Write the model with its description to `context.result`."""
    from orun.measure.session_settings import read_settings, write_settings
    from orun.stages._graph.io import load_graph, save_graph, weigh

    model = load_graph(context.model())
    _describe(model, params)
    properties = dict(params.properties)
    if PROVENANCE in properties:
        raise context.failed(f"`{PROVENANCE}` is written by orun", hint="choose another name for the property")
    if params.provenance:
        properties[PROVENANCE] = _format_provenance(context)
    _set_properties(model, properties)
    save_graph(model, context.model(), context.result)
    if settings := read_settings(context.model().parent):
        write_settings(context.output, settings)
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


def _format_provenance(context: Context) -> str:
    if context.provenance is None:
        raise context.failed(f"`{PROVENANCE}` needs the provenance of the model, and none was given")
    provenance = json.loads(context.provenance.read_bytes())
    stages = [{name: entry[name] for name in RECORDED if name in entry} for entry in provenance["stages"]]
    return json.dumps({"pipeline": provenance["pipeline"], "stages": stages}, sort_keys=True, ensure_ascii=False)
