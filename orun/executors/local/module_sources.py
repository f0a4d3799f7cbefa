"""Imports and environment changes of a Python file, read from its text."""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterator

from orun.core.serialization import Record

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
WRITERS = frozenset({"setdefault", "update", "putenv", "pop", "clear"})


class Source(Record, frozen=True):
    """A file, as far as its text tells.

    Attributes:
        imports: top-level names of the modules that it imports, anywhere but under `if TYPE_CHECKING`.
        sets_environment: it may change environment variables, which libraries read while they are imported.
    """

    imports: frozenset[str]
    sets_environment: bool


@functools.lru_cache(maxsize=256)  # a pipeline names the same few files in many stages
def read_source(text: bytes, functions: frozenset[str] | None = None) -> Source:
    """What a file says; nothing when it is no Python.

    Args:
        text: its content.
        functions: leave out what other functions than these import; None for all.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # importing it will say so
        return Source(frozenset(), sets_environment=False)
    imports = frozenset(name.partition(".")[0] for node in _nodes(tree, functions) for name in _imported(node))
    return Source(imports, any(_sets_environment(node) for node in _nodes(tree, None)))


def _nodes(tree: ast.AST, functions: Collection[str] | None) -> Iterator[ast.AST]:
    """The nodes that run, or may run: not what stands under `if TYPE_CHECKING`, nor in functions left out."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting.extend(node.orelse)
        elif functions is None or not isinstance(node, FUNCTIONS) or node.name in functions:
            waiting.extend(ast.iter_child_nodes(node))


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module]
    return []


def _sets_environment(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
        return _is_environ(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITERS:
        return node.func.attr == "putenv" or _is_environ(node.func.value)
    return False


def _is_environ(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "environ") or (
        isinstance(node, ast.Name) and node.id == "environ"
    )
