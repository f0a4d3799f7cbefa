"""The last line: how the run ended, what that means, and where to go from there."""

from __future__ import annotations

import os
from collections.abc import Sequence

from orun.record import Outcome, RunResult, StageResult
from orun.report.figures import count, quoted
from orun.report.terminal import Style, Terminal
from orun.spelling import near
from orun.units import show

WORDS: dict[int, tuple[str, Style]] = {
    0: ("passed", "good"),
    1: ("failed", "bad"),
    3: ("failed", "bad"),
    4: ("undecided", "doubt"),
    130: ("interrupted", "doubt"),
}
STAGE_FAILED = 3
INTERRUPTED = 130


def summary_line(result: RunResult, terminal: Terminal) -> str:
    """One sentence; the exit code is in it unless it is 0."""
    word, style = WORDS[result.exit_code]
    parts = [_stages(result), _gates(result), show(result.seconds, "s")]
    text = f"{terminal.paint(word, style)}: {', '.join(part for part in parts if part)}"
    if result.exit_code:
        text += f"; exit {result.exit_code}"
    after = _after(result)
    return f"{text}; {after}" if after else text


def _stages(result: RunResult) -> str:
    counts: dict[Outcome, int] = {}
    for stage in result.stages:
        counts[stage.outcome] = counts.get(stage.outcome, 0) + 1
    order: tuple[Outcome, ...] = ("failed", "blocked", "built", "cached", "skipped")
    told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in order if outcome in counts)
    return f"{count(len(result.stages), 'stage')} ({told})" if told else count(0, "stage")


def _gates(result: RunResult) -> str:
    verdicts = [verdict for verdict in result.verdicts if not verdict.depth]  # a group counts as one
    left = sum(len(stage.unjudged) for stage in result.stages)
    if not verdicts:
        return f"{count(left, 'gate')} not judged" if left else ""
    counts = {name: sum(verdict.outcome == name for verdict in verdicts) for name in ("failed", "undecided")}
    passed = len(verdicts) - sum(counts.values())
    counts["not judged"] = left
    total = count(len(verdicts), "gate")
    told = [f"{total} passed" if passed == len(verdicts) else f"{passed} of {total} passed"]
    return ", ".join([*told, *(f"{number} {outcome}" for outcome, number in counts.items() if number)])


def _after(result: RunResult) -> str:
    if result.exit_code == INTERRUPTED:
        return f"what is done is kept, go on with: orun {quoted(near(result.file))}"
    outcomes = {stage.outcome for stage in result.stages}
    if "blocked" in outcomes and "failed" not in outcomes and result.exit_code == STAGE_FAILED:
        return "to run what is not up to date as well, use --to in the place of --only"
    folder = results_folder(result.stages)
    return f"results in {near(folder)}" if folder and result.exit_code == 0 else ""


def results_folder(stages: Sequence[StageResult]) -> str:
    """The folder below which every stage left what people open; empty when none did."""
    return next((os.path.dirname(stage.out) for stage in stages if stage.out), "")  # noqa: PTH120 -- plain text
