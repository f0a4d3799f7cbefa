"""Edits of parts: a piece of a model, and two models in one."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
from onnx import ModelProto, TensorProto, compose

from orun.stages._graph.input_domain import InputDomain, read_domain
from orun.stages._graph.io import load
from orun.stages.library_errors import failing
from orun.stages.name_checks import require_known
from orun.stages.optimize._editing.declarations import OTHER, Extract, Merge
from orun.stages.optimize._editing.draft import Draft
from orun.stages.optimize._editing.interface import require_typed


def _share(draft: Draft, merger: Merge, place: str) -> None:
    if not merger.prefix:
        raise draft.failed(place, "`share` needs `prefix`", why="both models have an input of that name")
    inputs = draft.inputs
    require_known(f"{place}.share", merger.share, [name for name in inputs if f"{merger.prefix}{name}" in inputs])
    for name in merger.share:
        ours, theirs = inputs[name], inputs[f"{merger.prefix}{name}"]
        if ours.dtype != theirs.dtype:
            raise draft.failed(
                place, f"input {name!r} is of {ours.dtype} in one model, and of {theirs.dtype} in the other"
            )
        theirs.replace_all_uses_with(ours, replace_graph_outputs=True)
        draft.model.graph.inputs.remove(theirs)


def extract(draft: Draft, piece: Extract, place: str) -> None:
    """Keep the piece of the model between some values."""
    draft.infer()
    graph = draft.model.graph
    values = ir.convenience.create_value_mapping(graph, include_subgraphs=False)
    computed = {name: value for name, value in values.items() if not value.is_initializer()}
    require_known(f"{place}.inputs", piece.inputs, computed)
    require_known(f"{place}.outputs", piece.outputs, values)
    if not piece.inputs and not piece.outputs:
        raise draft.failed(
            place, "names no value", hint="`outputs: [NAME]` for the head, `inputs: [NAME]` for the tail"
        )
    for name in (*piece.inputs, *piece.outputs):
        require_typed(draft, values[name], place)
    outputs = piece.outputs or [value.name or "" for value in graph.outputs]
    inputs = set(draft.inputs)
    kept = [name for name in draft.inputs if name not in piece.inputs]
    order = list(graph.initializers)
    part = ir.convenience.extract(graph, [*piece.inputs, *kept], outputs)
    for name in kept:
        value = next(value for value in part.inputs if value.name == name)
        if not value.uses() and not value.is_graph_output():
            part.inputs.remove(value)
    weights = {name: part.initializers[name] for name in order if name in part.initializers}
    part.initializers.clear()  # `extract` leaves them in an order that differs from process to process
    part.initializers.update(weights)
    draft.model = ir.Model(
        part,
        ir_version=draft.model.ir_version,
        producer_name=draft.model.producer_name,
        producer_version=draft.model.producer_version,
        functions=list(draft.model.functions.values()),
        metadata_props=dict(draft.model.metadata_props),
    )
    if inputs == set(draft.inputs):
        draft.outputs = {name: before for name, before in draft.outputs.items() if name in outputs}
    else:  # the model before it cannot run on the inputs of the piece
        draft.outputs = {}
    draft.fixed_values = {name: value for name, value in draft.fixed_values.items() if name in draft.inputs}
    draft.altered.append("extract")


def merge(draft: Draft, merger: Merge, place: str) -> None:
    """Put another model after or before this one."""
    if OTHER not in draft.context.inputs:
        raise draft.failed(
            place,
            "there is no model to merge",
            why=f"no stage is connected to the input `{OTHER}`",
            hint=f"needs: {{model: STAGE, {OTHER}: STAGE}}",
        )
    ours, other = ir.to_proto(draft.model), load(draft.context.model(OTHER))
    domain = read_domain(other)
    del other.metadata_props[:]
    if merger.prefix:
        compose.add_prefix(other, merger.prefix, inplace=True)
    after = merger.place == "after"
    connections = _rename_connections(merger, ours, other, f"{place}.connect")
    first, second = (ours, other) if after else (other, ours)
    _require_fitting(draft, first, second, connections, place)
    ours.ir_version = other.ir_version = max(ours.ir_version, other.ir_version)
    with failing(draft.context, f"{place}: the models cannot be merged", "where names collide, set `prefix`"):
        merged = compose.merge_models(first, second, list(connections.items()), name=ours.graph.name)
    merged.producer_name, merged.producer_version = ours.producer_name, ours.producer_version
    merged.graph.doc_string = ours.graph.doc_string
    draft.model = ir.from_proto(merged)
    if merger.share:
        _share(draft, merger, place)
    theirs = {f"{merger.prefix}{name}": values for name, values in domain.inputs.items()}
    draft.domain = InputDomain({**theirs, **draft.domain.inputs}, {**domain.sizes, **draft.domain.sizes})
    draft.outputs = {name: before for name, before in draft.outputs.items() if after and name not in connections}
    draft.altered.append("merge")


def _rename_connections(merger: Merge, ours: ModelProto, other: ModelProto, place: str) -> dict[str, str]:
    """Return the connections with the names that the models have now."""
    after = merger.place == "after"
    prefix = merger.prefix
    theirs = {value.name for value in (other.graph.input if after else other.graph.output)}
    ours_known = {value.name for value in (ours.graph.output if after else ours.graph.input)}

    def add_prefix(name: str) -> str:
        return f"{prefix}{name}" if prefix and f"{prefix}{name}" in theirs else name

    pairs = merger.connect.items()
    require_known(place, [source if after else target for source, target in pairs], ours_known)
    names = [add_prefix(target if after else source) for source, target in pairs]
    require_known(place, names, theirs, model=f"the model at `{OTHER}`")
    return {
        (source if after else add_prefix(source)): (add_prefix(target) if after else target) for source, target in pairs
    }


def _require_fitting(
    draft: Draft, first: ModelProto, second: ModelProto, connections: Mapping[str, str], place: str
) -> None:
    outputs = {value.name: value.type.tensor_type.elem_type for value in first.graph.output}
    inputs = {value.name: value.type.tensor_type.elem_type for value in second.graph.input}
    for source, target in connections.items():
        if outputs[source] != inputs[target]:
            kinds = [TensorProto.DataType.Name(kind).lower() for kind in (outputs[source], inputs[target])]
            raise draft.failed(place, f"output {source!r} is of {kinds[0]}, and input {target!r} of {kinds[1]}")
    versions = {item.domain: item.version for item in first.opset_import}
    for item in second.opset_import:
        if versions.get(item.domain, item.version) != item.version:
            raise draft.failed(
                place,
                f"one model uses operator set {versions[item.domain]}, the other {item.version}",
                hint=f"put `convert/opset` with `version: {max(versions[item.domain], item.version)}` before the older",
            )
