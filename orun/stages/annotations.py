"""Parameter types from annotations in source text; `params.type_of` does the same for real annotations."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from orun.core.serialization import replace
from orun.stages.params import MARKERS, ParamType, Range

# Annotations by their last name: `Code`, `orun.Code` and `orun.stages.params.Code` are the same.
SIMPLE: Mapping[str, ParamType] = {
    "Any": ParamType("any"),
    **{marker.__name__: ParamType(name) for marker, name in MARKERS.items()},
}
ALLOWED = (
    "bool, int, float, str, Literal[...], list[T], dict[str, T], T | None, Any, or one of orun's Code, FilePath,"
    " TargetName, Duration, Size, Ratio"
)


class Unreadable(Exception):
    """An annotation that a pipeline file cannot write.

    Attributes:
        node: the offending part of the annotation.
        message: what is wrong with it.
    """

    def __init__(self, node: ast.expr, message: str) -> None:
        super().__init__(message)
        self.node = node
        self.message = message


def type_of(node: ast.expr) -> ParamType:
    """Return the parameter type of an annotation.

    Raises:
        Unreadable: when a pipeline file cannot hold such a value, or the annotation is not made of names and literals.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return type_of(_quoted(node, node.value))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _union(node, [node.left, node.right])
    if isinstance(node, ast.Subscript) and _items(node.slice):
        return _subscript(node, _last_name(node.value), _items(node.slice))
    if simple := SIMPLE.get(_last_name(node)):
        return simple
    raise Unreadable(node, f"a pipeline file cannot write a {ast.unparse(node)}")


def doc_of(node: ast.expr) -> str:
    """Return the text of `Doc("...")` in an `Annotated[...]`, or an empty text."""
    texts = [
        str(_literal(argument))
        for call in _extras(node)
        if _last_name(call.func) == "Doc"
        for argument in (*call.args, *(keyword.value for keyword in call.keywords))
    ]
    return texts[0] if texts else ""


def _subscript(node: ast.Subscript, name: str, items: list[ast.expr]) -> ParamType:
    if name == "Annotated":
        return replace(type_of(items[0]), range=_range(node))
    if name == "Literal":
        return ParamType("literal", choices=tuple(_literal(item) for item in items))
    if name == "Optional":
        return replace(type_of(items[0]), optional=True)
    if name == "Union":
        return _union(node, items)
    if name in ("list", "List"):
        return ParamType("list", items=(type_of(items[0]),))
    if name in ("dict", "Dict", "Mapping") and len(items) > 1 and _last_name(items[0]) == "str":
        return ParamType("map", items=(type_of(items[1]),))
    raise Unreadable(node, f"a pipeline file cannot write a {ast.unparse(node)}")


def _union(node: ast.expr, parts: list[ast.expr]) -> ParamType:
    members: list[ParamType] = []
    optional = False
    for part in parts:
        if isinstance(part, ast.Constant) and part.value is None:
            optional = True
            continue
        member = type_of(part)
        optional = optional or member.optional
        member = replace(member, optional=False)
        members += member.items if member.name == "union" else (member,)
    if not members:
        raise Unreadable(node, "a parameter that can only be None")
    if len(members) == 1:
        return replace(members[0], optional=optional)
    return ParamType("union", optional=optional, items=tuple(members))


def _range(node: ast.expr) -> Range:
    for call in _extras(node):
        if _last_name(call.func) == "Range":
            named = {keyword.arg or "": _literal(keyword.value) for keyword in call.keywords}
            try:
                return Range(*(_literal(argument) for argument in call.args), **named)
            except TypeError as error:
                raise Unreadable(call, "Range takes a lowest and a highest value") from error
    return Range()


def _extras(node: ast.expr) -> list[ast.Call]:
    if isinstance(node, ast.Subscript) and _last_name(node.value) == "Annotated":
        return [item for item in _items(node.slice)[1:] if isinstance(item, ast.Call)]
    return []


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise Unreadable(
            node, f"{ast.unparse(node)} is not a literal, and the file is read without being run"
        ) from error


def _quoted(node: ast.expr, text: str) -> ast.expr:
    try:
        parsed = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise Unreadable(node, f"{text!r} is not an annotation") from error
    for part in ast.walk(parsed):
        ast.copy_location(part, node)
    return parsed


def _items(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
