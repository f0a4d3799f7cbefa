"""Collection of the mistakes in a pipeline file and of notes on it, and their rendering."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence

from orun.core.serialization import replace
from orun.core.source_location import Position, Problem, abridge
from orun.errors import PipelineError
from orun.pipeline.nodes import Span
from orun.text.positions import OVERRIDE, format_position
from orun.text.suggestions import find_closest, format_choices

LIMIT = 100  # problems after which reading a file ends
WIDTH = 100  # columns of a wrapped line
LONGEST = 160  # columns of source text around a caret
LONGEST_ADVICE = 2000  # most letters of an expectation, which lists names
SMART_QUOTES = "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb"

COLOURS = {"error": "1;31", "place": "1", "caret": "31", "label": "36"}


class Problems:
    """Mistakes so far, and notes on what is probably one, each once."""

    def __init__(self) -> None:
        self._problems: dict[Problem, None] = {}
        self._notes: dict[Problem, None] = {}

    @property
    def notes(self) -> tuple[Problem, ...]:
        """Notes on what is no mistake for sure, in the order of their places."""
        return tuple(sorted(self._notes, key=lambda note: note.position))

    def add_note(self, span: Span, message: str, *, suggestion: str = "", hint: str = "") -> None:
        """Note what is probably a mistake, and does not keep the pipeline from running."""
        self._notes[Problem(span.position, message, span.source, span.width, suggestion=suggestion, hint=hint)] = None

    def __len__(self) -> int:
        return len(self._problems)

    def list_positions(self) -> set[Position]:
        """Return the positions of the mistakes."""
        return {problem.position for problem in self._problems}

    def add(self, span: Span, message: str, *, expected: str = "", suggestion: str = "", hint: str = "") -> None:
        """Note a mistake.

        Raises:
            PipelineError: when there are too many.
        """
        message, suggestion = map(abridge, (message, suggestion))
        expected, hint = (abridge(text, LONGEST_ADVICE) for text in (expected, hint))
        self.extend([Problem(span.position, message, span.source, span.width, expected, suggestion, hint)])

    def add_unknown(self, span: Span, message: str, name: str, known: Collection[str], otherwise: str = "") -> None:
        """Note a name that is none of the known ones; `otherwise` is expected if there are none."""
        self.add(span, message, expected=format_choices(known) or otherwise, suggestion=find_closest(name, known))

    def extend(self, problems: Iterable[Problem]) -> None:
        """Note the mistakes of another collection; see `add`."""
        for problem in problems:
            self._problems[problem] = None
            if len(self._problems) >= LIMIT:
                raise PipelineError(tuple(self._problems))

    def suggest(self, meant: Mapping[Position, str]) -> None:
        """Suggest what was meant for the mistakes at these positions."""
        self._problems = {
            replace(problem, suggestion=meant.get(problem.position, problem.suggestion)): None
            for problem in self._problems
        }

    def check(self) -> None:
        """Raise a PipelineError if there are any mistakes."""
        if self._problems:
            raise PipelineError(tuple(self._problems))


def render(problems: Sequence[Problem], colour: bool = False) -> str:
    """Render the problems for people, separated by blank lines.

        pipelines/bert.yaml:12:7: error: 'per_chanel' is not a parameter of quantize/dynamic
           12 |       per_chanel: true
              |       ^^^^^^^^^^
          did you mean: per_channel
          expected: one of per_channel, reduce_range, weight_type
          hint: orun stages quantize/dynamic

    Files below the working folder are named relative to it.
    """
    return "\n\n".join("\n".join(_format_lines(problem, colour)) for problem in problems)


def render_note(note: Problem) -> str:
    """Render a note as one line: `bert.yaml:3:3: nothing uses variable 'bacth'; did you mean batch?`."""
    meant = f"did you mean {note.suggestion}?" if note.suggestion else ""
    return f"{format_position(note.position)}: {'; '.join(filter(None, (note.message, meant, note.hint)))}"


def list_advice(problem: Problem) -> list[tuple[str, str]]:
    """Return the advice about a mistake, each with its label, the most probable first."""
    labelled = [("did you mean", problem.suggestion), ("expected", problem.expected), ("hint", problem.hint)]
    return [(label, text) for label, text in labelled if text]


def _format_lines(problem: Problem, colour: bool) -> list[str]:
    at = _paint(f"{format_position(problem.position)}:", "place", colour)
    lines = [f"{at} {_paint('error:', 'error', colour)} {problem.message}"]
    if problem.source.strip():
        lines += _format_excerpt(problem, colour)
    for label, text in list_advice(problem):
        lines += _format_labelled(label, text, colour)
    return lines + _format_labelled("note", _look_alikes(problem), colour)


def _look_alikes(problem: Problem) -> str:
    """Name the letters of a text that only look like those of the suggestion, or that look like quotes round it."""
    text = problem.source[problem.position.column - 1 :][: problem.width]
    is_quoted = len(text) > 1 and text[0] in SMART_QUOTES
    if not problem.suggestion.isascii() or not (problem.suggestion or is_quoted):
        return ""
    names = {letter: unicodedata.name(letter, "a control character") for letter in text}
    odd = {letter: name for letter, name in names.items() if not letter.isascii() and not name.startswith("LATIN ")}
    return ", ".join(f"U+{ord(letter):04X} in it is {name}" for letter, name in odd.items())


def _format_excerpt(problem: Problem, colour: bool) -> list[str]:
    number = "" if problem.position.file == OVERRIDE else str(problem.position.line)
    start = max(0, problem.position.column - 1 - LONGEST // 2) if len(problem.source) > LONGEST else 0
    before = problem.source[start : problem.position.column - 1]
    shown = problem.source[start : start + LONGEST]
    pad = "".join("\t" if letter == "\t" else " " * _count_columns(letter) for letter in before)
    width = max(1, min(problem.width, len(shown) - len(before)))
    return [
        f"{number:>5} | {shown}".rstrip(),
        f"{'':>5} | {pad}{_paint('^' * width, 'caret', colour)}",
    ]


def _count_columns(letter: str) -> int:
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _format_labelled(label: str, text: str, colour: bool) -> list[str]:
    first = f"  {_paint(label + ':', 'label', colour)} "
    lines = text.splitlines()
    if label != "hint":  # which may be a command to copy
        lines = [
            part
            for line in lines
            for part in textwrap.wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False)
        ]
    return [f"{first if index == 0 else '    '}{line}" for index, line in enumerate(lines)]


def _paint(text: str, part: str, colour: bool) -> str:
    return f"\x1b[{COLOURS[part]}m{text}\x1b[0m" if colour else text
