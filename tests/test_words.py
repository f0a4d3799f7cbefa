"""Names in the code say what they hold (docs/glossary.md has the words)."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import orun

PACKAGE = Path(orun.__file__).parent
# Pronouns and participles in the place of a noun, and words that once stood for terms of the field.
EMPTY = {
    "apart", "around", "aside", "asked", "beside", "condemned", "elsewhere", "found", "given", "giving", "intake",
    "made", "one", "ones", "others", "outgo", "outs", "room", "said", "sides", "stray", "strays", "taken", "told",
    "turn", "turns", "what", "where", "whole", "words",
}  # fmt: skip
PRONOUNS = ("what ", "which ", "how ", "where ", "that ", "those ", "it ", "this module", "whether ")


def names(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Every name that a file gives to something, with its line."""
    for node in nodes:
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


@cache
def wrong() -> tuple[list[str], list[str]]:
    """Names that say nothing, and docstrings of modules and classes that begin with a pronoun."""
    empty, unnamed = [], []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE.parent).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        nodes = list(ast.walk(tree))
        if path.stem.strip("_") in EMPTY:
            empty.append(place)
        for line, name in names(nodes):
            if name.strip("_") in EMPTY:
                empty.append(f"{place}:{line}: {name}")
        for node in nodes:
            text = (ast.get_docstring(node) or "") if isinstance(node, ast.Module | ast.ClassDef) else ""
            if text.lower().startswith(PRONOUNS):
                unnamed.append(f"{place}: {text.splitlines()[0]}")
    return empty, unnamed


def test_no_name_says_nothing() -> None:
    assert wrong()[0] == []


def test_every_module_and_class_says_what_it_is() -> None:
    """A docstring of a module or class is a noun phrase."""
    assert wrong()[1] == []


def test_names_of_all_kinds_are_seen() -> None:
    code = "class A:\n    def f(self, b):\n        self.c = d = b.e\n"
    assert sorted(names(ast.walk(ast.parse(code)))) == [(1, "A"), (2, "b"), (2, "f"), (2, "self"), (3, "c"), (3, "d")]
