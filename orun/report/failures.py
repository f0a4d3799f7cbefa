"""Stages that failed: what, why, what to do, and the end of the log of their process."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from orun.core.run_record import Failure, RunResult, StageResult
from orun.environment.python_path import PACKAGE
from orun.report.run_options import format_repetition
from orun.report.terminal import Terminal
from orun.text.counts import count
from orun.text.suggestions import show_path

TAIL_LINES = 15
MOST_LINES = 500  # in which the beginning of a traceback is looked for
REFUSAL = "orun.errors."
TRACEBACK = "Traceback (most recent call last):"
LEADING = re.compile(r'^  File "(.*/orun/executors/.*|<frozen runpy>)", line \d+ in ')  # to what crashed, by Python
LINKS = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
STAMP = re.compile(r"\d\d:\d\d:\d\d [A-Z]+ ")  # begins what a stage logs
FRAME = re.compile(r'  File "(.*)", line \d+')
INSTALLED = re.compile(r"/(site|dist)-packages/|/lib/python3\.\d+/|^<")
TAIL_BYTES = 32 * 1024  # enough for fifteen lines of any sane length; a log may be gigabytes
TAIL_WIDTH = 500  # characters of a line that are shown, from its end
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f]")


def format_failures(result: RunResult, terminal: Terminal) -> list[str]:
    """Return the lines about each failed stage, in the order of the plan."""
    return [line for stage in result.stages if stage.failure for line in format_failure(stage, terminal)]


def format_failure(stage: StageResult, terminal: Terminal, *, again: str = "") -> list[str]:
    """Return the lines about one failed stage.

    `again` is the command that runs it on another machine, for readers who may be there.
    """
    failure = stage.failure
    if failure is None:
        return []
    hints = failure.hint.splitlines()
    if again and failure.command:
        hints = [*failure.advice.splitlines(), f"Run it on your machine: {again}"]
    lines = [f"{terminal.paint(f'stage {stage.stage} failed', 'bad')}: {failure.problem}"]
    lines += [f"  {line}" for line in failure.why.splitlines()]
    lines += [f"  hint: {line}" for line in hints]
    if failure.log:
        shown = {failure.problem, *(line.strip() for line in lines[1:])}
        logged = [line for line in read_log_tail(Path(failure.log), MOST_LINES) if not LEADING.match(line)]
        tail = _list_other_lines(logged, failure)[-TAIL_LINES:]
        if shown.issuperset(line.strip() for line in tail):
            tail = []
        named = any(show_path(failure.log) in line for line in hints)
        lines += [] if named else [f"  log: {show_path(failure.log)}"]
        lines += [f"  last {count(len(tail), 'line')} of its log:"] if tail else []
        lines += [terminal.paint(f"  | {line}", "dim") for line in tail]
    return lines


def format_portable_failure(result: RunResult, stage: StageResult) -> list[str]:
    """Return the lines about a stage that failed, without colours, for readers on any machine."""
    return format_failure(stage, Terminal(), again=format_repetition(result, stage.stage))


def _list_other_lines(lines: list[str], failure: Failure) -> list[str]:
    """Return the lines of a log without what a refusal by orun says already, and the tracebacks that led to it.

    Frames of libraries and of orun do not help the user, who has the log for them. A traceback through other code, as
    the user's, stays if the refusal does not state its error.
    """
    stated = (failure.problem, *failure.why.splitlines()[:1])  # of a full disk, what failed of it is the first cause
    if not any(line.startswith(REFUSAL) and line.endswith(stated) for line in lines):
        return lines
    heads = [number for number, line in enumerate(lines) if line in (TRACEBACK, *LINKS) or STAMP.match(line)]
    entries = [lines[start:end] for start, end in pairwise([0, *heads, len(lines)])]
    kept = [line for entry in entries if not _is_stated(entry, failure) for line in entry]
    return "\n".join(kept).rstrip().splitlines()


def _is_stated(entry: list[str], failure: Failure) -> bool:
    """Return whether an entry of the log adds nothing to a refusal."""
    statement = f"{failure.problem}\n{failure.why}\n{failure.hint}"
    head, *rest = entry or [""]
    if stamp := STAMP.match(head):
        return not rest and head[stamp.end() :] in statement
    if head != TRACEBACK:
        return head in LINKS
    error = next((line for line in rest if line and not line.startswith(" ")), "")
    cause = error.partition(": ")[2].strip()
    known = error.startswith(REFUSAL) or (cause and cause in statement)
    return bool(known) or all(_is_of_library(frame[1]) for frame in map(FRAME.match, rest) if frame)


def _is_of_library(path: str) -> bool:
    """Return whether a file is one of Python, of an installed package or of orun, on this machine or another."""
    inside = path.rpartition("/orun/")[2]
    return bool(INSTALLED.search(path)) or (inside != path and (PACKAGE / inside).exists())


def read_log_tail(log: Path, lines: int = TAIL_LINES) -> list[str]:
    """Return the ends of the last lines of a log without control characters; none when it is empty or gone."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:  # the report about a failed stage must not fail over its log; its path is shown
        return []
    kept = [strip_controls(line).rstrip() for line in text.split("\n")]
    while kept and not kept[-1]:
        kept.pop()
    return [line if len(line) <= TAIL_WIDTH else f"...{line[-TAIL_WIDTH:]}" for line in kept[-lines:]]


def strip_controls(line: str) -> str:
    """Return the text as it reads after its last carriage return, without colours and other control sequences."""
    return ESCAPES.sub("", line.rstrip("\r").rpartition("\r")[2])
