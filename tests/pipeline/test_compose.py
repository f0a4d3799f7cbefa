from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from orun.errors import PipelineError
from orun.pipeline import compose as module
from orun.pipeline.compose import compose
from orun.pipeline.nodes import List, Map, Scalar, find, to_plain
from orun.pipeline.problems import LIMIT, Problems, render
from orun.pipeline.text import read
from tests.pipeline.support import mapping, node, write

SAMPLE = """\
# a comment
name: "bert: é"   # quoted
version: 1.10
stages:
  - {a: 1, b: [x, 'y']}
  -
    deep: &one
      k: on
    same: *one
text: |
  two
  lines
empty:
"""


@pytest.fixture(params=["libyaml", "pure"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pure":
        monkeypatch.setattr(module, "PARSER", yaml.SafeLoader)
    elif not yaml.__with_libyaml__:
        pytest.skip("PyYAML was built without libyaml")
    return str(request.param)


def message_of(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    problems = Problems()
    monkeypatch.chdir(folder)
    compose(read(write(folder, text)), problems)
    with pytest.raises(PipelineError) as caught:
        problems.check()
    return render(caught.value.problems)


@pytest.mark.usefixtures("parser")
def test_a_file_has_the_values_of_yaml_1_2(tmp_path: Path) -> None:
    assert to_plain(node(tmp_path, SAMPLE)) == {
        "name": "bert: é",
        "version": 1.1,
        "stages": [{"a": 1, "b": ["x", "y"]}, {"deep": {"k": "on"}, "same": {"k": "on"}}],
        "text": "two\nlines\n",
        "empty": None,
    }


@pytest.mark.usefixtures("parser")
def test_every_value_knows_its_place(tmp_path: Path) -> None:
    root = mapping(tmp_path, SAMPLE)

    def place(*path: str | int) -> tuple[int, int, int, str]:
        _, span = find(root, path)
        return span.position.line, span.position.column, span.width, span.source

    assert place("name") == (2, 7, 9, 'name: "bert: é"   # quoted')
    assert place("version") == (3, 10, 4, "version: 1.10")
    assert place("stages", 0, "b", 1) == (5, 19, 3, "  - {a: 1, b: [x, 'y']}")
    assert place("stages", 1, "deep", "k") == (8, 10, 2, "      k: on")
    assert place("stages", 1, "same", "k") == (8, 10, 2, "      k: on")
    assert place("stages") == (4, 1, 6, "stages:")
    assert place("empty") == (13, 1, 5, "empty:")


def test_a_number_keeps_its_text(tmp_path: Path) -> None:
    version = mapping(tmp_path, SAMPLE).get("version")
    assert isinstance(version, Scalar)
    assert (version.value, version.text) == (1.1, "1.10")


@pytest.mark.usefixtures("parser")
def test_columns_count_letters_behind_a_byte_order_mark_and_before_windows_line_ends(tmp_path: Path) -> None:
    root = mapping(tmp_path, "\ufeffnäme: x\r\nb: [é, y]\r\n")
    _, first = find(root, ("näme",))
    _, second = find(root, ("b", 1))
    assert (first.position.line, first.position.column) == (1, 7)
    assert (second.position.line, second.position.column) == (2, 8)


def test_an_empty_text_has_no_root(tmp_path: Path) -> None:
    problems = Problems()
    assert compose(read(write(tmp_path, "# nothing\n")), problems) is None
    assert len(problems) == 0


def test_merge_keys_bring_in_what_the_mapping_does_not_have(tmp_path: Path) -> None:
    text = "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\nown: {<<: [*b, *m], x: 0}\n"
    assert to_plain(node(tmp_path, text)) == {
        "base": {"x": 1, "y": 2},
        "more": {"y": 3, "z": 4},
        "own": {"y": 2, "z": 4, "x": 0},
    }


def test_a_quoted_number_is_text(tmp_path: Path) -> None:
    assert to_plain(node(tmp_path, "a: '1'\nb: \"on\"\n")) == {"a": "1", "b": "on"}


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_fifty_levels_are_fine(tmp_path: Path) -> None:
    composed = node(tmp_path, nested(50))
    assert isinstance(composed, List)
    assert composed.depth == 50


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("text", [nested(10_000), "{a: " * 10_000, "\n".join(" " * n + "a:" for n in range(200))])
def test_deep_nesting_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    assert "error: lists and mappings are nested more than 50 deep" in message_of(tmp_path, text, monkeypatch)


def test_aliases_that_multiply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert message_of(tmp_path, "\n".join(levels), monkeypatch) == (
        "p.yaml:5:5: error: with its aliases written out, this holds more than 100000 values\n"
        "    5 | a4: &a4 [*a3, *a3, *a3, *a3, *a3, *a3, *a3, *a3, *a3, *a3]\n"
        "      |     ^^^^^"
    )


def test_aliases_that_nest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 60))]
    assert "with its aliases written out, this is nested more than 50 deep" in message_of(
        tmp_path, "\n".join(levels), monkeypatch
    )


def test_a_file_of_mistakes_is_given_up(tmp_path: Path) -> None:
    problems = Problems()
    with pytest.raises(PipelineError) as caught:
        compose(read(write(tmp_path, "a: 1\n" * 100_000)), problems)
    assert len(caught.value.problems) == LIMIT


def test_the_last_of_two_equal_keys_does_not_count(tmp_path: Path) -> None:
    problems = Problems()
    root = compose(read(write(tmp_path, "a: 1\na: 2\n")), problems)
    assert isinstance(root, Map)
    assert to_plain(root) == {"a": 1}
    assert len(problems) == 1


SYNTAX: dict[str, tuple[str, str]] = {
    "tab in a list": ("a:\n  - x\n\t- y\n", "3:1: error: a tab cannot indent"),
    "indentation of a list": ("a:\n  - x\n  y: 1\n", "3:3: error: this does not fit the list that begins on line 2"),
    "indentation of a mapping": (
        "a:\n  b: 1\n c: 2\n",
        "3:2: error: 'c' is in line with no key above",
    ),
    "equally near columns": (
        "a:\n  b: 1\n c: 2\n",
        "expected: a key in column 3, like 'b', or in column 1, like 'a'",
    ),
    "nearer column": ("a:\n    b:\n      c: 1\n     d: 2\n", "expected: a key in column 7, like 'c', or in column 5"),
    "much nearer column": ("a:\n    b: 1\n c: 2\n", "expected: a key in column 1, like 'a'"),
    "key after a list": (
        "a:\n  b:\n    - x\n c: 2\n",
        "expected: a key in column 3, like 'b', or in column 1, like 'a'",
    ),
    "key in a list": (
        "a:\n  b:\n    - x\n    c: 2\n",
        "expected: '- ' in column 5, like the items before, or a key in column 3, like 'b'",
    ),
    "first key too deep": (
        "a:\n    b: 1\n  c: 2\n  d: 3\n",
        "expected: 'b' in column 3, like 'c', or a key in column 5, like 'b', or in column 1, like 'a'",
    ),
    "list in a mapping": (
        "a:\n - b: 1\n    c: 2\n",
        "3:5: error: 'c' is indented deeper than 'b' above, which has a value",
    ),
    "text in two lines": ("a: some text\n  with b: c\n", "expected: a key in column 1, like 'a'\n  hint: quote text"),
    "no space": ("a:\n  bc:d\n  e: f\n", "2:3: error: 'bc:d' lacks a space after its ':'\n"),
    "no space before a brace": (
        "a:\n  bc:{d: e, f: g}\n",
        "2:3: error: 'bc:{d: e, f: g}' lacks a space after its ':'\n",
    ),
    "no space before a bracket": (
        "a:\n  bc:['d', e]\n  f: g\n",
        "2:3: error: \"bc:['d', e]\" lacks a space after its ':'\n",
    ),
    "odd space in braces": ("a: {b:\xa0[c, d], e: f}\n", "1:7: error: U+00A0, NO-BREAK SPACE, cannot follow a ':'"),
    "semicolon after a list": ("a: {b: [1, 2]; c: 2}\n", "1:14: error: ';' does not separate keys"),
    "no comma after a function": ("a: {b: c.py:d e: 2}\n", "1:15: error: a ',' is missing before 'e'"),
    "no space before a comment": ("bc:d # x\ne: f\n", "1:1: error: 'bc:d' lacks a space after its ':'\n"),
    "address": ("a:\n  http://x\n  e: f\n", "3:4: error: a ':' that fits nothing here"),
    "odd space": ("a: b\nc:\xa0d\ne: f\n", "2:3: error: U+00A0, NO-BREAK SPACE, cannot follow a ':'"),
    "smart quotes": (
        "a: {b: \u201cc: d\u201d}\n",
        "1:8: error: U+201C, LEFT DOUBLE QUOTATION MARK, does not quote text",
    ),
    "smart quotes within quotes": (
        "a: {b: 'x: \u201cy\u201d' c d: e}\n",
        "1:17: error: the '{' on line 1 is not closed before this",
    ),
    "semicolon": ("a: {b: 1; c: 2}\n", "1:9: error: ';' does not separate keys"),
    "no comma": ("a: {b: 1 c: 2}\n", "1:10: error: a ',' is missing before 'c'"),
    "no comma after a quote": ("a: {b: '1' c: 2}\n", "1:12: error: a ',' is missing before 'c'"),
    "no comma after a list": ("a: {b: [1, 2] c: 2}\n", "1:15: error: a ',' is missing before 'c'"),
    "colon": ("a: b: c\n", "1:5: error: a ':' that fits nothing here"),
    "quote": ('a: "x\nb: 1\n', "1:4: error: the quote on line 1 is never closed"),
    "bracket": ("a: [1, 2\nb: 3\n", "2:2: error: the '[' on line 1 is not closed before this"),
    "brace": ("a: {b: 1\nc: 2\n", "2:2: error: the '{' on line 1 is not closed before this"),
    "percent": ("a: %x\n", "1:4: error: text cannot begin with '%'"),
    "no colon": ("a: 1\nbcd\ne: 2\n", "2:1: error: a key without a ':'"),
    "dash": ("a: - b\n", "1:4: error: a list cannot begin on the line of its key"),
    "star": ("a: *.py\n", "1:5: error: '.' cannot be in the name of an anchor or alias"),
    "escape": ('a: "\\q"\n', "error: an unknown escape after '\\' within double quotes"),
    "end within brackets": ("a: [1,\n\n", "1:6: error: a value is missing here"),
    "two commas": ("a: [1, , 2]\n", "1:8: error: a value is missing here"),
    "other": ("a: !x!y 1\n", "1:4: error: this is not YAML: found undefined tag handle"),
}


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("name", SYNTAX)
def test_both_parsers_complain_alike(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, expected = SYNTAX[name]
    assert expected in message_of(tmp_path, text, monkeypatch)


def test_both_parsers_build_the_same_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees: list[Any] = []
    for loader in (module.PARSER, yaml.SafeLoader):
        monkeypatch.setattr(module, "PARSER", loader)
        trees.append(node(tmp_path, SAMPLE))
    assert trees[0] == trees[1]


LONG = "k" * 1100


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"{LONG}: 1\n", "p.yaml:1:1"),
        (f"a:\n  b: 1\n  {LONG}: 1\n", "p.yaml:3:3"),
        (f"a:\n  - {LONG}: 1\n", "p.yaml:2:5"),
        (f"a: {{b: 1, {LONG}: 1}}\n", "p.yaml:1:11"),
        (f"a: {{'{LONG}, x': 1}}\n", "p.yaml:1:5"),
        (f'a:\n  "{LONG}": 1\n', "p.yaml:2:3"),
        (f"a:\n  {'k ' * 600}: 1\n", "p.yaml:2:3"),
    ],
)
def test_a_key_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, place: str) -> None:
    lines = message_of(tmp_path, text, monkeypatch).splitlines()
    assert lines[0] == f"{place}: error: the key is too long for YAML"
    assert lines[-1] == "  expected: a key of at most 1024 characters"


def test_a_key_that_cannot_be_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert message_of(tmp_path, '"a\\0": 1\n1e400: 2\n!x b: 3\n', monkeypatch).count("error:") == 3
