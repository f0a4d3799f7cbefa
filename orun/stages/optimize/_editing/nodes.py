"""Edits of nodes: removal and replacement."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
from onnx import defs

from orun.stages.name_checks import require_known
from orun.stages.optimize._editing.declarations import Remove, Replace
from orun.stages.optimize._editing.draft import Draft


def remove(draft: Draft, removal: Remove, place: str) -> None:
    """Remove nodes that pass on their first input."""
    draft.infer()  # the type of an output may change
    for node in _find(draft, removal.nodes, removal.op_types, place):
        _remove(draft, node, place)
    draft.altered.append("remove")


def _remove(draft: Draft, node: ir.Node, place: str) -> None:
    graph, label = node.graph, node.name or node.outputs[0].name
    if graph is None:
        return
    if not node.inputs or node.inputs[0] is None:
        raise draft.failed(place, f"{node.op_type} {label!r} has no input that could take its place")
    if used := next((value for value in node.outputs[1:] if value.uses() or value.is_graph_output()), None):
        raise draft.failed(place, f"{node.op_type} {label!r} cannot go: its output {used.name!r} is used, too")
    value, source = node.outputs[0], node.inputs[0]
    if value.is_graph_output():  # which keeps its name
        identity = ir.node("Identity", [source], name=node.name)
        value.type, value.shape = source.type, source.shape
        ir.convenience.replace_nodes_and_values(graph, node, [node], [identity], [value], identity.outputs)
        return
    value.replace_all_uses_with(source)
    graph.remove(node, safe=True)


def replace_nodes(draft: Draft, replacement: Replace, place: str) -> None:
    """Give nodes another operator."""
    imports = draft.model.graph.opset_imports
    imports.setdefault(replacement.domain, 1)
    schema = _find_schema(draft, replacement, imports[replacement.domain], place)
    attributes = replacement.attributes
    if schema and attributes:
        require_known(f"{place}.attributes", attributes, schema.attributes)
    for node in _find(draft, replacement.nodes, replacement.op_types, place):
        node.op_type, node.domain = replacement.by, replacement.domain
        if attributes is None:
            for name in [name for name in node.attributes if schema and name not in schema.attributes]:
                del node.attributes[name]
            continue
        node.attributes.clear()
        for name, value in attributes.items():
            # An enum, which the stubs do not say.
            kind = ir.AttributeType(schema.attributes[name].type.value) if schema else None  # type: ignore[attr-defined]
            node.attributes.add(ir.convenience.convert_attribute(name, value, kind))
    draft.altered.append("replace")


def _find_schema(draft: Draft, replacement: Replace, version: int, place: str) -> defs.OpSchema | None:
    """Return the schema of the new operator; None for one that ONNX does not define."""
    domain, functions = replacement.domain, {name for _, name, _ in draft.model.functions}
    if replacement.by in functions:
        return None
    if domain == "":
        known: Mapping[str, None] = {schema.name: None for schema in defs.get_all_schemas() if schema.domain == ""}
        require_known(f"{place}.by", [replacement.by], known)
    if not defs.has(replacement.by, domain):
        return None
    try:
        return defs.get_schema(replacement.by, version, domain)
    except defs.SchemaError:
        raise draft.failed(
            place,
            f"{replacement.by} is not in operator set {version}, which the model uses",
            hint="put `convert/opset` before",
        ) from None


def _find(draft: Draft, names: list[str], op_types: list[str], place: str) -> list[ir.Node]:
    """Return the chosen nodes, those of nested graphs included."""
    nodes = [*draft.model.graph.all_nodes()]
    by_name = {name: node for node in nodes for name in (node.outputs[0].name, node.name) if name}
    require_known(f"{place}.nodes", names, by_name)
    require_known(f"{place}.op_types", op_types, {node.op_type for node in nodes})
    if not names and not op_types:
        raise draft.failed(place, "names no node", hint="`nodes: [NAME]` or `op_types: [Identity]`")
    chosen = {id(by_name[name]) for name in names}
    return [node for node in nodes if id(node) in chosen or node.op_type in op_types]
