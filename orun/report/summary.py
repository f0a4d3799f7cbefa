"""The last line of a run: its verdict, what was left open, and where to go from there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from orun.core.reason_codes import ReasonCode
from orun.core.run_record import INTERRUPTED, Outcome, RunOutcome, RunResult
from orun.fs.os_errors import quote
from orun.report.gates import NOT_ASKED, NOT_JUDGED, iter_unjudged
from orun.report.run_options import format_run_options
from orun.report.stages import format_reasons
from orun.report.terminal import Style, Terminal
from orun.text.counts import count
from orun.text.lists import cut, join_few
from orun.text.suggestions import show_path
from orun.text.units import show

STYLES: Mapping[RunOutcome, Style] = {
    "passed": "good",
    "failed": "bad",
    "undecided": "doubt",
    "no baseline": "dim",
    "not judged": "doubt",
    "done": "dim",
    "interrupted": "doubt",
}
STAGE_FAILED = 3
LONGEST = 120  # letters of a reason; the notes above have all of it
MOST_NAMED = 3  # gates of one verdict that the line names


def choose_run_style(result: RunResult) -> Style:
    """Return how the verdict of a run is painted: good only if every gate was judged and passed."""
    style = STYLES[result.outcome]
    left_out = result.exit_code or result.not_asked or any(iter_unjudged(result))
    return "doubt" if style in ("good", "dim") and left_out else style


def summarize(result: RunResult, terminal: Terminal) -> list[str]:
    """Return the parts of the verdict: outcome and figures, the exit code unless it is 0, where to go from there."""
    figures, *rest = summarize_after_outcome(result)
    return [f"{terminal.paint(result.outcome, choose_run_style(result))}: {figures}", *rest]


def summarize_after_outcome(result: RunResult) -> list[str]:
    """Return the parts of the verdict without its outcome."""
    figures = ", ".join([_count_stages(result), *_count_gates(result), show(result.seconds, "s")])
    return [figures, *([f"exit {result.exit_code}"] if result.exit_code else []), *_advise(result)]


def _count_stages(result: RunResult) -> str:
    counts: dict[Outcome, int] = {}
    for stage in result.stages:
        counts[stage.outcome] = counts.get(stage.outcome, 0) + 1
    order: tuple[Outcome, ...] = ("failed", "blocked", "built", "cached", "skipped")
    outcomes = ", ".join(f"{counts[outcome]} {outcome}" for outcome in order if outcome in counts)
    return f"{count(len(result.stages), 'stage')} ({outcomes})" if outcomes else count(0, "stage")


def _count_gates(result: RunResult) -> Iterator[str]:
    """Yield the number of gates of each verdict, and the names of those that were not decided."""
    verdicts = [verdict for verdict in result.verdicts if not verdict.depth]  # a group counts as one
    titles = {
        name: [verdict.title for verdict in verdicts if verdict.outcome == name]
        for name in ("undecided", "no baseline")
    }
    titles[NOT_JUDGED] = [gate.title for _, gate in iter_unjudged(result)]
    titles[NOT_ASKED] = list(result.not_asked)
    passed = sum(verdict.outcome == "passed" for verdict in verdicts)
    total = count(len(verdicts), "gate")
    if verdicts:
        yield f"{total} passed" if passed == len(verdicts) else f"{passed} of {total} passed"
    if failed := sum(verdict.outcome == "failed" for verdict in verdicts):
        yield f"{failed} failed"
    for name, gates in titles.items():
        if gates:
            number = f"{len(gates)}" if verdicts else count(len(gates), "gate")
            yield f"{number} {name}" + ("" if result.outcome == "failed" else f" ({join_few(gates, MOST_NAMED)})")
    if result.outcome == "done" and not result.not_asked:
        yield "no gates"


def _advise(result: RunResult) -> Iterator[str]:
    if result.exit_code == INTERRUPTED:
        yield "what is done is kept; to go on, run the same command again"
    outcomes = {stage.outcome for stage in result.stages}
    if "blocked" in outcomes and "failed" not in outcomes and result.exit_code == STAGE_FAILED:
        to = f"--to {quote(_find_requested(result))}{format_run_options(result)}"
        yield f"to run what is missing as well: orun {quote(show_path(result.file))} {to}"
    if result.outcome in ("done", "not judged") or (result.outcome != "failed" and any(iter_unjudged(result))):
        yield from iter_skip_reasons(result)
    out = next((stage.out for stage in result.stages if stage.out), "")
    if out and result.exit_code == 0:
        yield f"results in {show_path(os.path.dirname(out))}"  # noqa: PTH120 - plain text


def _find_requested(result: RunResult) -> str:
    """Return the last blocked stage that the run was asked for; the stages before it were not."""
    blocked = [stage for stage in result.stages if stage.outcome == "blocked"]
    requested = [stage for stage in blocked if all(item.code != ReasonCode.NOT_SELECTED for item in stage.reasons)]
    return (requested or blocked)[-1].stage


def iter_skip_reasons(result: RunResult) -> Iterator[str]:
    """Yield each reason for which a stage was skipped once. Stages after a skipped one have none."""
    skipped = {stage.stage for stage in result.stages if stage.outcome == "skipped"}
    first = [stage for stage in result.stages if stage.stage in skipped and skipped.isdisjoint(stage.needs)]
    for reason in dict.fromkeys(format_reasons(stage.reasons, every=True) for stage in first):
        yield f"skipped: {cut(reason, LONGEST)}"
