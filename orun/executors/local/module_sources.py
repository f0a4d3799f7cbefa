"""Imports and environment changes of a Python file, read from its text."""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterator

from orun.core.serialization import Record

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
WRITERS = frozenset({"setdefault", "update", "putenv", "pop", "clear"})


class Source(Record, frozen=True):
    """Content of a Python file.

    Attributes:
        imports: top-level names of the modules that it imports, except under `if TYPE_CHECKING`.
        sets_environment: whether it may change environment variables, which libraries read as they are imported.
    """

    imports: frozenset[str]
    sets_environment: bool


@functools.lru_cache(maxsize=256)  # a pipeline names the same few files in many stages
def read_source(text: bytes, functions: frozenset[str] | None = None) -> Source:
    """Return what a file says; nothing if it is no valid Python.

    Args:
        text: its content.
        functions: ignore the imports in all other functions; None for no limit.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # importing it reports this
        return Source(frozenset(), sets_environment=False)
    imports = frozenset(name.partition(".")[0] for node in _iter_nodes(tree, functions) for name in _list_imports(node))
    return Source(imports, any(_sets_environment(node) for node in _iter_nodes(tree, None)))


def _iter_nodes(tree: ast.AST, functions: Collection[str] | None) -> Iterator[ast.AST]:
    """Yield the nodes that may run: not those under `if TYPE_CHECKING` or in ignored functions."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting.extend(node.orelse)
        elif functions is None or not isinstance(node, FUNCTIONS) or node.name in functions:
            waiting.extend(ast.iter_child_nodes(node))


def _list_imports(node: ast.AST) -> list[str]:
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
