"""Annotations of GitHub Actions: what failed, at its own line of the pipeline file.

A line of the output is taken for a command by the runner:
https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from orun.core.open_gates import open_gates
from orun.core.run_record import RunResult
from orun.core.source_location import Position
from orun.errors import PipelineError
from orun.pipeline.problems import advice
from orun.report.failures import failure_note
from orun.report.figures import position_of
from orun.report.gates import (
    NOT_JUDGED,
    caveat,
    caveats,
    next_step,
    place_of,
    settings_note,
    title_of,
    why,
    why_unjudged,
)
from orun.report.notes import undeclared_write_note
from orun.report.terminal import Terminal
from orun.text.counts import count
from orun.text.positions import path_in_repository

Level = Literal["error", "warning", "notice"]
MOST = 10  # annotations of a level that GitHub shows of a step


def commands(result: RunResult) -> list[str]:
    """Lines for what failed, is undecided, was written beside outputs, no figure tells, and was not judged.

    Errors come first, then warnings, then notices.
    """
    lines = [*_stages(result), *_gates(result, fails=True), *_unjudged(result, fails=True)]
    lines += [*_gates(result, fails=False), *_undeclared_writes(result), *_notes(result), *_caveats(result)]
    lines += _unjudged(result, fails=False)
    return _limited(lines, "the step summary has them all")


def mistakes(error: PipelineError) -> list[str]:
    """A line for each mistake of a pipeline file."""
    lines = [
        _line("error", problem.position, "pipeline file", [problem.message, *map(": ".join, advice(problem))])
        for problem in error.problems
    ]
    return _limited(lines, "the log of the step has them all")


def _limited(lines: Sequence[str], rest: str) -> list[str]:
    """Return at most `MOST` lines of each level; where there are more, the last one counts those left out."""
    limited: list[str] = []
    for level in get_args(Level):
        same = [line for line in lines if line.startswith(f"::{level} ")]
        shown = same if len(same) <= MOST else same[: MOST - 1]
        limited += shown
        if left := len(same) - len(shown):
            limited.append(f"::{level} title=and {count(left, f'more {level}')}::{rest}")
    return limited


def _stages(result: RunResult) -> Iterator[str]:
    for stage in result.stages:
        if stage.failure:
            yield _line(
                "error", position_of(stage, result), f"stage {stage.stage} failed", failure_note(stage, Terminal())
            )


def _gates(result: RunResult, *, fails: bool) -> Iterator[str]:
    settings = settings_note(result)
    for verdict in open_gates(result.verdicts):
        if verdict.fails != fails:
            continue
        hint = [f"hint: {next_step(verdict, result)}"] if fails else []
        level: Level = "error" if fails else "notice" if verdict.outcome == "no baseline" else "warning"
        yield _line(level, place_of(verdict, result), title_of(verdict), [why(verdict), settings, *hint])


def _undeclared_writes(result: RunResult) -> Iterator[str]:
    for stage in result.stages:
        if stage.wrote:
            title = f"{stage.stage} wrote beside its output"
            yield _line("warning", position_of(stage, result), title, [undeclared_write_note(result, stage)])


def _notes(result: RunResult) -> Iterator[str]:
    for stage in result.stages:
        if stage.notes:
            yield _line("notice", position_of(stage, result), f"{stage.stage} says", list(stage.notes))


def _caveats(result: RunResult) -> Iterator[str]:
    for verdict in caveats(result):
        title = f"what no gate of {verdict.stage} tells"
        yield _line("notice", place_of(verdict, result), title, [caveat(verdict)])


def _unjudged(result: RunResult, *, fails: bool) -> Iterator[str]:
    """One line a stage: GitHub shows no more than `MOST`."""
    for stage in result.stages:
        if left := [gate.title for gate in stage.unjudged if gate.fails == fails]:
            title = f"{NOT_JUDGED}: {', '.join(left)}"
            yield _line("error" if fails else "notice", position_of(stage, result), title, [why_unjudged(stage)])


def _line(level: Level, place: Position, title: str, message: Sequence[str]) -> str:
    file = path_in_repository(place.file, "GITHUB_WORKSPACE")
    properties = {"file": file, "line": str(place.line), "col": str(place.column), "title": title}
    named = ",".join(f"{name}={_escaped(value, ',:')}" for name, value in properties.items())
    text = "\n".join(line for line in message if line)
    return f"::{level} {named}::{_escaped(text)}"


def _escaped(text: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text
