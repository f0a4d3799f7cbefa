"""Keys of a block mapping that stand in a column of their own."""

from __future__ import annotations

import re
from typing import NamedTuple

import yaml

from orun.pipeline.nodes import Span
from orun.pipeline.text import Text

KEY = re.compile(r"(?P<lead> *(?:- +)*)(?P<key>[\w.-]+(?: [\w.-]+)*) *:(?P<value>\s.*|$)")
COMMENT = re.compile(r"(?:^|\s)#.*")
ABOUT_COLUMNS = re.compile("did not find expected key|expected <block end>|mapping values are not allowed")
COLON_IN_TEXT = "quote text that holds ': '"


class Misfit(NamedTuple):
    """Key in a wrong column, with what is wrong and the columns that would fit."""

    span: Span
    message: str
    expected: str
    hint: str


class _KeyLine(NamedTuple):
    line: int  # counts from 0
    column: int  # counts from 1
    key: str
    value: str


def find_misfit(text: Text, error: yaml.MarkedYAMLError) -> Misfit | None:
    """Return the key at which the parser stopped if the lines above show the columns that are possible."""
    mark, complaint = error.problem_mark, error.problem or ""
    key = _read_key(text, mark.line) if mark and ABOUT_COLUMNS.search(complaint) else None
    if key is None or mark is None or mark.column + 1 not in (key.column, key.column + len(key.key)):
        return None
    lines = [line for line in range(mark.line) if COMMENT.sub("", text.read_line(line)).strip()]
    above = [read for line in lines if (read := _read_key(text, line))]
    if not above:
        return None
    span = text.build_span(key.line + 1, key.column, len(key.key))
    is_last = above[-1].line == lines[-1]
    if is_last and above[-1].column < key.column and above[-1].value:
        hint = COLON_IN_TEXT if "mapping values" in complaint and " " in above[-1].value else ""
        message = f"{key.key!r} is indented deeper than {above[-1].key!r} above, which has a value"
        return Misfit(span, message, _describe_shallower(key, above), hint)
    outer = next((line for line in reversed(above) if line.column < key.column), None)
    if outer is None or not _is_start(outer, error) or _count_indent(text.lines[lines[-1]]) < key.column:
        return None
    inner = above[above.index(outer) + 1 :]
    if not inner:
        return None
    closed = min(inner, key=lambda line: (line.column, -line.line))
    below = next((line for line in text.lines[key.line + 1 :] if COMMENT.sub("", line).strip()), "")
    expected = _choose_column(key, outer, closed, _count_indent(below))
    if len(inner) == 1 and _count_indent(below) + 1 == key.column:
        expected = f"{closed.key!r} in column {key.column}, like {key.key!r}, or {expected}"
    return Misfit(span, f"{key.key!r} is in line with no key above", expected, "")


def describe_owner(text: Text, error: yaml.MarkedYAMLError) -> str:
    """Describe the column of the key that has the list in which a key was found; empty if a line is no key."""
    mark, list_mark = error.problem_mark, error.context_mark
    key = _read_key(text, mark.line) if mark else None
    owner = _read_key(text, list_mark.line - 1) if list_mark and list_mark.line else None
    return f", or a key in column {owner.column}, like {owner.key!r}" if key and owner else ""


def _describe_shallower(key: _KeyLine, above: list[_KeyLine]) -> str:
    """Describe the column of the key above, and the column of this key if the key above may be the wrong one."""
    *_, previous, last = (None, *above)
    fits = f"a key in column {last.column}, like {last.key!r}"
    if previous and (previous.column == key.column or (previous.column == last.column and not previous.value)):
        return f"{fits}, or {last.key!r} in column {key.column}, like {key.key!r}"
    return fits


def _choose_column(key: _KeyLine, outer: _KeyLine, closed: _KeyLine, below: int) -> str:
    """Describe the nearer column of the two mappings around a key; both if they are equally near.

    The next line, with `below` spaces before it, is deeper than its key where it begins the key's value.
    """
    to_outer, to_closed = key.column - outer.column, closed.column - key.column
    if not key.value and key.column <= below < closed.column:
        to_closed = to_outer + 1
    fits = [line for line, far in ((closed, to_closed), (outer, to_outer)) if far == min(to_closed, to_outer)]
    return "a key " + ", or ".join(f"in column {line.column}, like {line.key!r}" for line in fits)


def _count_indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_start(outer: _KeyLine, error: yaml.MarkedYAMLError) -> bool:
    """Return whether a key stands in the column of the mapping that the parser was reading."""
    return error.context_mark is not None and error.context_mark.column + 1 == outer.column


def _read_key(text: Text, line: int) -> _KeyLine | None:
    match = KEY.match(text.read_line(line))
    return match and _KeyLine(line, match.start("key") + 1, match["key"], COMMENT.sub("", match["value"]).strip())
