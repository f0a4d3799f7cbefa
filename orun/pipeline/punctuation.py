"""Characters of copied or hastily typed text that YAML does not take for a space, a quote or a separator."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

import yaml

from orun.pipeline.indentation import COMMENT
from orun.pipeline.nodes import Span
from orun.pipeline.problems import SMART_QUOTES
from orun.pipeline.text import Text

ODD_SPACES = (  # characters that look like a space: where, what is wrong, and what to write
    (re.compile(r" *(?P<odd>[^\S \t\r\n])\s*(?:- |[\w\"'])"), "cannot indent", "spaces"),
    (re.compile(r" *(?:- +)*[\w.-]+:(?P<odd>[^\S \t\r\n])"), "cannot follow a ':'", "a space"),
)
SMART_QUOTE = re.compile(rf"(?:^ *(?:- +)*|[:,\[{{] *)(?P<odd>[{SMART_QUOTES}])")
QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'[^']*'|(?:^|\s)#.*")
JOINED = re.compile(r" *(?:- +)*(?P<pair>(?P<key>[A-Za-z_][\w.-]+):(?P<value>(?!//)[^\s:].*))")
JOINED_BRACES = re.compile(r" *(?:- +)*[A-Za-z_][\w.-]+:[\[{\"']")
UNSEPARATED = re.compile(r"(?:: +[^\s,;]+|[\]}\"])(?P<gap> *; *| +)(?P<next>[\w.-]+)$")
ODD_IN_BRACES = re.compile(r"[\w.-]+:(?P<odd>[^\S \t\r\n])")
SEMICOLON = "';' does not separate keys"
NEXT_KEY = re.compile(r"[\w.-]+(?= *:)")


class Slip(NamedTuple):
    """A wrong or missing character, with what to write."""

    span: Span
    message: str
    expected: str
    suggestion: str = ""


def find_slip(text: Text, error: yaml.MarkedYAMLError) -> Slip | None:
    """Return the character that made the parser stop; None if none is to blame."""
    mark, began = error.problem_mark, error.context_mark
    if mark is None:
        return None
    previous = next((line for line in range(mark.line - 1, -1, -1) if text.read_line(line).strip()), 0)
    in_flow = "flow" in (error.context or "")
    first = began.line if began else previous
    return (
        _find_odd_space(text, first, mark.line, in_flow=in_flow or "quoted" in (error.context or ""))
        or _find_smart_quote(text, first if in_flow else mark.line, mark.line)
        or (_find_separator(text, mark.line, mark.column) if in_flow else _find_joined(text, error, previous))
    )


def name_character(letter: str) -> str:
    """Return the number and name of a character, as in Unicode's tables."""
    return f"U+{ord(letter):04X}, {unicodedata.name(letter, 'a control character')}"


def _find_odd_space(text: Text, first: int, last: int, *, in_flow: bool) -> Slip | None:
    """Return a character that looks like a space and indents a key or follows its colon."""
    if in_flow and (match := ODD_IN_BRACES.search(_hide_quoted(text.read_line(first)))):
        span = text.build_span(first + 1, match.end("odd"))
        return Slip(span, f"{name_character(match['odd'])}, cannot follow a ':'", "a space")
    for number in range(first, min(last + 1, len(text.lines))):
        for pattern, verb, expected in ODD_SPACES:
            if match := pattern.match(text.lines[number]):
                span = text.build_span(number + 1, match.end("odd"))
                return Slip(span, f"{name_character(match['odd'])}, {verb}", expected)
    return None


def _find_smart_quote(text: Text, first: int, last: int) -> Slip | None:
    """Return a typographic quote where a value begins."""
    for number in range(first, min(last + 1, len(text.lines))):
        if match := SMART_QUOTE.search(_hide_quoted(text.lines[number])):
            span = text.build_span(number + 1, match.end("odd"))
            return Slip(span, f"{name_character(match['odd'])}, does not quote text", "the straight quotes \" or '")
    return None


def _find_separator(text: Text, line: int, column: int) -> Slip | None:
    """Return the place between two keys of braces that are not separated by a comma, both on a line."""
    source = text.read_line(line)
    if source[column : column + 1] == ";":
        return Slip(text.build_span(line + 1, column + 1), SEMICOLON, "','")
    following = NEXT_KEY.match(source, column)
    end = following.end() if following else len(source[:column].rstrip())
    match = UNSEPARATED.search(_hide_quoted(source[:end]))
    if match is None or (not following and source[column : column + 1] != ":"):
        return None
    if ";" in match["gap"]:
        at = source.index(";", match.start("gap"))
        return Slip(text.build_span(line + 1, at + 1), SEMICOLON, "','")
    key = match["next"]
    span = text.build_span(line + 1, match.start("next") + 1, len(key))
    return Slip(span, f"a ',' is missing before {key!r}", "',', or quotes round text that holds ': '")


def _find_joined(text: Text, error: yaml.MarkedYAMLError, previous: int) -> Slip | None:
    """Return a `key:value` without a space, which YAML reads as text that goes on in the next line."""
    mark, began, complaint = error.problem_mark, error.context_mark, error.problem or ""
    if began and "simple key" in (error.context or ""):
        number, column = began.line, began.column
    elif mark and re.search("mapping values|expected key|<block end>|<document start>", complaint):
        source = text.read_line(mark.line)
        number = mark.line if JOINED_BRACES.match(source) else previous
        column = len(source) - len(source.lstrip(" -"))
    else:
        return None
    match = JOINED.fullmatch(COMMENT.sub("", text.read_line(number)).rstrip())
    if match is None or match.start("pair") != column:
        return None
    pair = match["pair"]
    span = text.build_span(number + 1, column + 1, len(pair))
    return Slip(span, f"{pair!r} lacks a space after its ':'", "`key: value`", f"{match['key']}: {match['value']}")


def _hide_quoted(line: str) -> str:
    """Return a line of the same length without what stands in quotes or in a comment."""
    return QUOTED.sub(lambda match: '"' * len(match[0]), line)
