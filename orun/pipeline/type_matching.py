"""Types of values: the member of a union, the items of a list or mapping, and equality as in YAML."""

from __future__ import annotations

import re

from orun.pipeline.fragments import SIMPLE
from orun.pipeline.nodes import List, Map, Node, Scalar
from orun.stages.params import ParamType


def find_member(kind: ParamType, node: Node) -> ParamType | None:
    """Return the member of a union that a value belongs to, None for a value of no member; any other type itself."""
    if kind.name != "union":
        return kind
    return next((member for member in kind.items if _is_of(member, node)), None)


def choose_element(kind: ParamType) -> ParamType:
    """Return the type of the items of a list or mapping; `any` for `any`."""
    return kind.items[0] if kind.items else kind


def _is_of(kind: ParamType, node: Node) -> bool:
    if kind.name == "any":
        return True
    if isinstance(node, Scalar) and node.value is None:
        return kind.optional
    if kind.name == "union":
        return find_member(kind, node) is not None
    if isinstance(node, Map):
        return kind.name == "map" or (kind.name == "object" and _has_required(kind, node))
    if isinstance(node, List):
        return kind.name == "list"
    if kind.name == "literal":
        return any(are_same(choice, node.value) for choice in kind.choices)
    types, pattern, _ = SIMPLE.get(kind.name, ((), "", ""))
    if isinstance(node.value, str):
        return pattern is None or bool(pattern and re.search(pattern, node.text))
    if isinstance(node.value, bool):
        return "boolean" in types
    return "number" in types or ("integer" in types and node.value is not None and node.value == int(node.value))


def _has_required(kind: ParamType, node: Map) -> bool:
    needed = {param.name: param.type for param in kind.fields if param.required}
    return all(
        (value := node.get(name)) is not None and _is_of(kind_of_field, value) for name, kind_of_field in needed.items()
    )


def are_same(choice: object, value: object) -> bool:
    """Return whether two values are equal in YAML, where `true` is not 1."""
    return choice == value and isinstance(choice, bool) == isinstance(value, bool)
