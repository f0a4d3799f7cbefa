"""Annotations of GitHub Actions: what failed, at its own line of the pipeline file.

A line of the output is taken for a command by the runner:
https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from orun.core.open_gates import list_open_gates
from orun.core.run_record import RunResult
from orun.core.source_location import Position
from orun.errors import PipelineError
from orun.pipeline.problems import list_advice
from orun.report.failures import format_portable_failure
from orun.report.figures import find_position
from orun.report.gates import (
    NOT_JUDGED,
    explain_unjudged,
    explain_verdict,
    find_place,
    format_caveat,
    format_settings_note,
    format_title,
    list_caveats,
    suggest_next_step,
)
from orun.report.notes import describe_undeclared_write
from orun.text.counts import count
from orun.text.positions import to_repository_path

Level = Literal["error", "warning", "notice"]
MOST = 10  # annotations of a level that GitHub shows of a step


def format_commands(result: RunResult) -> list[str]:
    """Return lines for what failed, is undecided, was written beside outputs, no figure tells, and was not judged.

    Errors come first, then warnings, then notices.
    """
    lines = [*_iter_stages(result), *_iter_gates(result, fails=True), *_iter_unjudged(result, fails=True)]
    lines += [
        *_iter_gates(result, fails=False),
        *_iter_undeclared_writes(result),
        *_iter_notes(result),
        *_iter_caveats(result),
    ]
    lines += _iter_unjudged(result, fails=False)
    return _limit_lines(lines, "the step summary has them all")


def format_mistakes(error: PipelineError) -> list[str]:
    """Return a line for each mistake of a pipeline file."""
    lines = [
        _format_line(
            "error", problem.position, "pipeline file", [problem.message, *map(": ".join, list_advice(problem))]
        )
        for problem in error.problems
    ]
    return _limit_lines(lines, "the log of the step has them all")


def _limit_lines(lines: Sequence[str], rest: str) -> list[str]:
    """Return at most `MOST` lines of each level; where there are more, the last one counts those left out."""
    limited: list[str] = []
    for level in get_args(Level):
        same = [line for line in lines if line.startswith(f"::{level} ")]
        shown = same if len(same) <= MOST else same[: MOST - 1]
        limited += shown
        if left := len(same) - len(shown):
            limited.append(f"::{level} title=and {count(left, f'more {level}')}::{rest}")
    return limited


def _iter_stages(result: RunResult) -> Iterator[str]:
    for stage in result.stages:
        if stage.failure:
            lines = format_portable_failure(result, stage)
            yield _format_line("error", find_position(stage, result), f"stage {stage.stage} failed", lines)


def _iter_gates(result: RunResult, *, fails: bool) -> Iterator[str]:
    settings = format_settings_note(result)
    for verdict in list_open_gates(result.verdicts):
        if verdict.fails != fails:
            continue
        hint = [f"hint: {suggest_next_step(verdict, result, portable=True)}"] if fails else []
        level: Level = "error" if fails else "notice" if verdict.outcome == "no baseline" else "warning"
        yield _format_line(
            level, find_place(verdict, result), format_title(verdict), [explain_verdict(verdict), settings, *hint]
        )


def _iter_undeclared_writes(result: RunResult) -> Iterator[str]:
    for stage in result.stages:
        if stage.wrote:
            title = f"{stage.stage} wrote beside its output"
            yield _format_line(
                "warning", find_position(stage, result), title, [describe_undeclared_write(result, stage)]
            )


def _iter_notes(result: RunResult) -> Iterator[str]:
    for stage in result.stages:
        if stage.notes:
            yield _format_line("notice", find_position(stage, result), f"{stage.stage} says", list(stage.notes))


def _iter_caveats(result: RunResult) -> Iterator[str]:
    for verdict in list_caveats(result):
        title = f"what no gate of {verdict.stage} tells"
        yield _format_line("notice", find_place(verdict, result), title, [format_caveat(verdict)])


def _iter_unjudged(result: RunResult, *, fails: bool) -> Iterator[str]:
    """Yield a line for each stage: GitHub shows no more than `MOST`."""
    for stage in result.stages:
        if left := [gate.title for gate in stage.unjudged if gate.fails == fails]:
            title = f"{NOT_JUDGED}: {', '.join(left)}"
            yield _format_line(
                "error" if fails else "notice", find_position(stage, result), title, [explain_unjudged(stage)]
            )


def _format_line(level: Level, place: Position, title: str, message: Sequence[str]) -> str:
    file = to_repository_path(place.file, "GITHUB_WORKSPACE")
    properties = {"file": file, "line": str(place.line), "col": str(place.column), "title": title}
    named = ",".join(f"{name}={_escape(value, ',:')}" for name, value in properties.items())
    text = "\n".join(line for line in message if line)
    return f"::{level} {named}::{_escape(text)}"


def _escape(text: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text
