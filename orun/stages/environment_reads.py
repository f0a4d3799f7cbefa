"""Environment variables without which a user's function fails, read from its source."""

from __future__ import annotations

import ast
from itertools import takewhile
from pathlib import Path

from orun.stages.codefile import parse

PLAIN = ast.Assign | ast.AnnAssign | ast.Expr | ast.Return
BRANCHES = ast.IfExp | ast.BoolOp | ast.Lambda | ast.comprehension


def list_required_variables(root: Path, entry: str) -> set[str]:
    """Return the names of `os.environ["NAME"]` in the statements that every call runs: those before any block."""
    path, _, name = entry.rpartition(":")
    function = parse(root / path).find_function(name)
    always = takewhile(lambda statement: isinstance(statement, PLAIN), function.body if function else ())
    nodes = [list(ast.walk(statement)) for statement in always]
    straight = (part for parts in nodes if not any(isinstance(node, BRANCHES) for node in parts) for part in parts)
    return {
        node.slice.value
        for node in straight
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Load)
        and ast.unparse(node.value) == "os.environ"
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    }
