"""Translation of the YAML parser's complaints into plain language."""

from __future__ import annotations

import re

import yaml

from orun.core.serialization import Record
from orun.pipeline.indentation import COLON_IN_TEXT, describe_owner, find_misfit
from orun.pipeline.nodes import Span
from orun.pipeline.problems import Problems
from orun.pipeline.punctuation import find_slip
from orun.pipeline.text import Text
from orun.text.positions import OVERRIDE

TAB = "a tab cannot indent"
QUOTES = ("'", '"')
LONGEST_KEY = 1024
SPACES = "spaces: YAML allows no tab there"


class Complaint(Record, frozen=True):
    """Complaint of a YAML parser: pattern of its text, meaning, expectation, and fix.

    `{on_line}` and `{column}` are the start of the parser's current construct, `{letter}` is the offending letter,
    `{or_key}` is the column of the key that has the current list.
    """

    pattern: str
    message: str
    expected: str = ""
    hint: str = ""


# libyaml and PyYAML's own parser differ in the wording of some.
COMPLAINTS = (
    Complaint("tab character that violates", TAB, SPACES),
    Complaint(
        "cannot start any token",
        "text cannot begin with {letter}",
        "quotes round text that begins with one of @ ` %",
    ),
    Complaint(
        "mapping values are not allowed",
        "a ':' that fits nothing here",
        "one `key: value` to a line, and the keys of a mapping in one column",
        COLON_IN_TEXT,
    ),
    Complaint(
        "did not find expected '-'|<block end>, but found '\\?'",
        "this does not fit the list that begins{on_line}",
        "'- ' in column {column}, like the items before{or_key}",
    ),
    Complaint(
        "did not find expected key|expected <block end>",
        "this does not fit the mapping that begins{on_line}",
        "a key in column {column}, like the keys before",
    ),
    Complaint(
        "',' or '}'",
        "the '{{'{on_line} is not closed before this",
        "',' or '}}'",
        "quote text that holds one of , [ ] {{ }} when it stands within brackets",
    ),
    Complaint(
        "',' or '\\]'",
        "the '['{on_line} is not closed before this",
        "',' or ']'",
        "quote text that holds one of , [ ] {{ }} when it stands within brackets",
    ),
    Complaint("the node content|expected node content", "a value is missing here", "a value, or a closing bracket"),
    Complaint("unexpected ':'", "a ':' without a space after it", "`key: value`"),
    Complaint("could not find expected ':'", "a key without a ':'", "`key: value`"),
    Complaint("sequence entries are not allowed", "a list cannot begin on the line of its key", "'- ' on a line below"),
    Complaint("unexpected end of stream", "the quote{on_line} is never closed", "a closing quote"),
    Complaint(
        "unknown escape character",
        "an unknown escape after '\\' within double quotes",
        "\\\\ for a backslash, or single quotes, in which it stands for itself",
    ),
    Complaint(
        "expected alphabetic or numeric",
        "{letter} cannot be in the name of an anchor or alias",
        "quotes round text that begins with * or &",
    ),
    Complaint("", "this is not YAML: {said}"),
)


def report(error: yaml.MarkedYAMLError, text: Text, problems: Problems) -> None:
    """Note a parser's complaint at its position."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    source = text.read_line(line)
    indent = source[: len(source) - len(source.lstrip())]
    if "\t" in indent and column <= len(indent):
        problems.add(text.build_span(line + 1, indent.index("\t") + 1), TAB, expected=SPACES)
        return
    if key := _find_long_key(text, error):
        problems.add(key, "the key is too long for YAML", expected=f"a key of at most {LONGEST_KEY} characters")
        return
    if slip := find_slip(text, error):
        problems.add(slip.span, slip.message, expected=slip.expected, suggestion=slip.suggestion)
        return
    if misfit := find_misfit(text, error):
        problems.add(misfit.span, misfit.message, expected=misfit.expected, hint=misfit.hint)
        return
    began = error.context_mark or mark
    complaint_text = error.problem or "it cannot be parsed"
    complaint = next(complaint for complaint in COMPLAINTS if re.search(complaint.pattern, complaint_text))
    facts = {
        "said": complaint_text,
        "letter": repr(source[column]) if column < len(source) else "the end of the line",
        "on_line": "" if text.file == OVERRIDE or not began else f" on line {began.line + 1}",
        "column": began.column + 1 if began else 1,
        "or_key": describe_owner(text, error),
    }
    problems.add(
        _choose_span(text, error, complaint, line, column),
        complaint.message.format(**facts),
        expected=complaint.expected.format(**facts),
        hint=complaint.hint.format(**facts),
    )


def _find_long_key(text: Text, error: yaml.MarkedYAMLError) -> Span | None:
    """Return the key before the ':' at which the parser stopped, if it is too long for YAML."""
    mark = error.problem_mark
    if error.context_mark and "simple key" in (error.context or ""):
        mark, begin = error.context_mark, error.context_mark.column
        end = text.lines[mark.line].find(":", begin + LONGEST_KEY)
    elif mark and mark.line < len(text.lines):
        before = text.lines[mark.line][: mark.column].rstrip()
        indent = len(before) - len(before.lstrip(" -"))
        within = max(before.rfind("{"), before.rfind(",")) + 1 if "flow" in (error.context or "") else indent
        within += len(before[within:]) - len(before[within:].lstrip())
        begin = before.rfind(before[-1], 0, -1) if before.endswith(QUOTES) else within
        end = text.lines[mark.line].find(":", mark.column, mark.column + 1)
    else:
        return None
    return text.build_span(mark.line + 1, begin + 1, end - begin) if end - begin > LONGEST_KEY else None


def _choose_span(text: Text, error: yaml.MarkedYAMLError, complaint: Complaint, line: int, column: int) -> Span:
    """Return the place of the caret: the start of an open construct, or the last text of the file."""
    opened = error.context_mark
    if opened and ("never closed" in complaint.message or "without a ':'" in complaint.message):
        line, column = opened.line, opened.column
    elif not "".join(text.lines[line:]).strip():
        line = max(number for number, source in enumerate(text.lines[:line] or ("",)) if source.strip() or number == 0)
        column = max(0, len(text.lines[line].rstrip()) - 1)
    return text.build_span(line + 1, column + 1)
