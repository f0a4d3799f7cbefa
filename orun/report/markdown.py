"""A run as Markdown, for a pull request or the step summary of a CI system."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from orun.record import RunResult, StageResult, Verdict
from orun.report.failures import failure_note
from orun.report.gates import gate_row, headline_of, why
from orun.report.stages import stage_row
from orun.report.summary import summary_line
from orun.report.terminal import Terminal

SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")
PLAIN = Terminal()


def markdown(result: RunResult) -> str:
    """The Markdown document of a run."""
    blocks = [
        f"## {escape(result.pipeline)}",
        escape(summary_line(result, PLAIN)),
        *_table("Gates", ("gate", "measured", "95 % interval", "threshold", "verdict"), map(_gate, result.verdicts)),
        *_notes(result),
        *_table(
            "Stages",
            ("stage", "result", "time", "size", "metrics"),
            (stage_row(result, stage) for stage in result.stages),
        ),
        *[_failure(stage) for stage in result.stages if stage.failure],
    ]
    return "\n\n".join(blocks) + "\n"


def escape(text: str) -> str:
    """The text so that Markdown shows it as it is, on one line."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    body = [f"| {' | '.join(escape(cell) for cell in row)} |" for row in rows]
    if not body:
        return []
    head = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    return [f"### {title}", "\n".join([*head, *body])]


def _gate(verdict: Verdict) -> Sequence[str]:
    failing = verdict.fails and verdict.outcome == "undecided"
    return (*gate_row(verdict), f"{verdict.outcome} (fails the run)" if failing else verdict.outcome)


def _notes(result: RunResult) -> list[str]:
    open_gates = [verdict for verdict in result.verdicts if verdict.outcome != "passed"]
    lines = [f"- {escape(f'{headline_of(verdict)}: {why(verdict)}')}" for verdict in open_gates]
    return ["\n".join(lines)] if lines else []


def _failure(stage: StageResult) -> str:
    text = "\n".join(failure_note(stage, PLAIN))
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}"
