"""Annotations in source text, read as the `typing` objects that they stand for without running the file."""

from __future__ import annotations

import ast
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orun.stages.params import MARKERS, Doc, Range, convert_type

# Annotations by their last name: `Code`, `orun.Code` and `orun.stages.params.Code` are the same.
SIMPLE: Mapping[str, Any] = {"Any": Any, **{marker.__name__: marker for marker in MARKERS}}
ANNOTATED: Any = typing.Annotated
LITERAL: Any = typing.Literal
UNION: Any = typing.Union
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


def read_annotation(node: ast.expr) -> Any:
    """Return the type that an annotation stands for, in the form that `orun.stages.params.convert_type` takes.

    Raises:
        Unreadable: when a pipeline file cannot hold such a value, or the annotation is not made of names and literals.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return read_annotation(_parse_quoted(node, node.value))
    hint = _parse_hint(node)
    try:
        convert_type(hint)
    except TypeError as error:
        raise Unreadable(node, f"a pipeline file cannot write a {ast.unparse(node)}") from error
    return hint


def _parse_hint(node: ast.expr) -> Any:
    """Return the type that an annotation stands for; None if a pipeline file cannot hold such a value."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return UNION[_join_members([node.left, node.right])]
    items = _list_items(node.slice) if isinstance(node, ast.Subscript) else []
    if not isinstance(node, ast.Subscript) or not items:
        return SIMPLE.get(_find_last_name(node))
    name = _find_last_name(node.value)
    if name == "Annotated":
        marks = tuple(_iter_marks(items[1:]))
        return ANNOTATED[read_annotation(items[0]), *marks] if marks else read_annotation(items[0])
    if name == "Literal":
        return LITERAL[tuple(map(_parse_literal, items))]
    if name in ("Optional", "Union"):
        return UNION[(*_join_members(items), *((None,) if name == "Optional" else ()))]
    if name in ("list", "List"):
        return list[read_annotation(items[0])]  # type: ignore[misc]  # it is known only here
    if name in ("dict", "Dict", "Mapping") and len(items) > 1 and _find_last_name(items[0]) == "str":
        return dict[str, read_annotation(items[1])]  # type: ignore[misc]  # the same
    return None


def _join_members(items: Iterable[ast.expr]) -> Any:
    """Return the members of a union, as the argument of `typing.Union`."""
    return tuple(
        None if isinstance(item, ast.Constant) and item.value is None else read_annotation(item) for item in items
    )


def _iter_marks(items: Iterable[ast.expr]) -> Iterator[Doc | Range]:
    """Yield the marks of orun in an `Annotated[...]`; those of other libraries mean nothing here."""
    for item in items:
        mark = {"Doc": Doc, "Range": Range}.get(_find_last_name(item.func)) if isinstance(item, ast.Call) else None
        if isinstance(item, ast.Call) and mark:
            named = {keyword.arg or "": _parse_literal(keyword.value) for keyword in item.keywords}
            try:
                yield mark(*map(_parse_literal, item.args), **named)
            except TypeError as error:
                takes = "a text" if mark is Doc else "a lowest and a highest value"
                raise Unreadable(item, f"{mark.__name__} takes {takes}") from error


def _parse_literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise Unreadable(
            node, f"{ast.unparse(node)} is not a literal, and the file is read without being run"
        ) from error


def _parse_quoted(node: ast.expr, text: str) -> ast.expr:
    try:
        parsed = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise Unreadable(node, f"{text!r} is not an annotation") from error
    for part in ast.walk(parsed):
        ast.copy_location(part, node)
    return parsed


def _list_items(node: ast.expr) -> list[ast.expr]:
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def _find_last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
