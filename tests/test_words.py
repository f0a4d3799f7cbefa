"""Names in the code say what they hold (docs/glossary.md has the words)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import orun

PACKAGE = Path(orun.__file__).parent
# Pronouns and participles in the place of a noun, and words that once stood for terms of the field.
EMPTY = {
    "apart", "around", "aside", "asked", "beside", "condemned", "elsewhere", "found", "given", "giving", "intake",
    "made", "one", "ones", "others", "outgo", "outs", "room", "said", "sides", "stray", "strays", "taken", "told",
    "turn", "turns", "what", "where", "whole", "words",
}  # fmt: skip
KEPT = {  # that users read: fields of errors, events, records and JSON output
    "orun/cli/mcp_results.py": {"what"},
    "orun/core/events.py": {"what"},
    "orun/core/run_record.py": {"what", "others"},
    "orun/errors.py": {"what"},
    "orun/executors/masking.py": {"what"},
    "orun/scaffold/model_facts.py": {"what"},
    "orun/text/suggestions.py": {"what"},
}


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every name that a file gives to something, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def test_no_name_says_nothing() -> None:
    empty = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE.parent).as_posix()
        if path.stem.strip("_") in EMPTY:
            empty.append(place)
        for line, name in names(ast.parse(path.read_text(encoding="utf-8"))):
            if name.strip("_") in EMPTY and name not in KEPT.get(place, ()):
                empty.append(f"{place}:{line}: {name}")
    assert empty == []


def test_every_module_and_class_says_what_it_is() -> None:
    """A docstring of a module or class is a noun phrase: it begins with none of these words."""
    pronouns = ("what ", "which ", "how ", "where ", "that ", "those ", "it ", "this module", "whether ")
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documented: list[ast.Module | ast.ClassDef] = [tree]
        documented += [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        for node in documented:
            text = (ast.get_docstring(node) or "").lower()
            if text.startswith(pronouns):
                wrong.append(f"{path.relative_to(PACKAGE.parent)}: {text.splitlines()[0]}")
    assert wrong == []
