"""Names in the code say what they hold (docs/glossary.md has the words)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import orun

PACKAGE = Path(orun.__file__).parent
# Pronouns and participles in the place of a noun, and words that once stood for terms of the field: no whole name, in
# small letters or capitals.
EMPTY = {
    "apart", "around", "aside", "asked", "bench", "beside", "discovery", "elsewhere", "found", "further", "given",
    "hit", "ledger", "made", "mixture", "one", "ones", "others", "placing", "room", "said", "sides", "survey", "taken",
    "told", "turn", "turns", "what", "where", "whole", "words",
}  # fmt: skip
# Words that terms of the field have replaced altogether: no part of a name either.
REPLACED = {
    "condemned", "culprits", "discovered", "giving", "hasten", "intake", "lineage", "mend", "oncpu", "outgo", "outs",
    "quad", "quads", "said", "scratch", "sealed", "stray", "strays", "told",
}  # fmt: skip
PART = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
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
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.lineno, node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.lineno, node.rest


def is_empty(name: str) -> bool:
    """Return whether a name says nothing, or has a word that a term of the field has replaced."""
    parts = {part.lower() for part in PART.findall(name)}
    return name.strip("_").lower() in EMPTY or not parts.isdisjoint(REPLACED)


@cache
def wrong() -> tuple[list[str], list[str]]:
    """Names that say nothing, and docstrings of modules and classes that begin with a pronoun."""
    empty, unnamed = [], []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE.parent).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        nodes = list(ast.walk(tree))
        if is_empty(path.stem):
            empty.append(place)
        for line, name in names(nodes):
            if is_empty(name):
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
    code = """\
import a as b
from c import d as e

class F:
    def g(self, h):
        self.i = j = h.k
        try:
            j()
        except OSError as l:
            pass
        match h:
            case [m, *n]:
                pass
            case {"o": 1, **p}:
                pass
            case [] as q:
                pass
"""
    assert " ".join(name for _, name in sorted(names(ast.walk(ast.parse(code))))) == "b e F g h self i j l m n p q"


@pytest.mark.parametrize("name", ["told", "_WORDS", "Made", "is_told", "strayNote", "LineageFile", "stray_note"])
def test_a_name_that_says_nothing_is_seen(name: str) -> None:
    assert is_empty(name)


@pytest.mark.parametrize("name", ["NOT_FOUND", "recommended", "fits_beside"])
def test_a_name_that_has_such_a_word_by_chance_is_not(name: str) -> None:
    assert not is_empty(name)
