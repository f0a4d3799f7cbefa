"""The report of a run for people: lines while it runs, tables and a sentence at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TextIO

from orun.core.events import Event, Planning, RunStarted, StageStarted, StageWaiting
from orun.core.run_record import RunResult
from orun.report.gates import format_caveat_notes, format_gate_notes, format_gate_table
from orun.report.lines import Lines
from orun.report.notes import format_stage_notes, format_undeclared_writes
from orun.report.progress import RunProgress
from orun.report.stages import format_stage_table
from orun.report.summary import summarize
from orun.report.table import measure_width, wrap
from orun.report.terminal import Terminal

if TYPE_CHECKING:
    from orun.report.live import Live
    from orun.report.waiting import WaitingLine

Detail = Literal["quiet", "normal", "verbose"]


class Console:
    """Receives the events of a run (`on_event`), then its result.

    Quiet shows failures and the last line alone. Rich is imported when a stage starts on a terminal, not before.
    """

    def __init__(self, stream: TextIO, terminal: Terminal, detail: Detail = "normal") -> None:
        self._stream = stream
        self._terminal = terminal
        self._detail = detail
        self._lines = Lines((), terminal)
        self._progress = RunProgress()
        self._live: Live | None = None
        self._waiting: WaitingLine | None = None

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if self._detail == "quiet":
            return
        if isinstance(event, Planning) and event.activity:
            if self._waiting is None:
                from orun.report.waiting import WaitingLine

                self._waiting = WaitingLine(self._stream, self._terminal)
            self._waiting.note(event.activity)
            return
        self._end_waiting()
        if isinstance(event, RunStarted):
            self._lines = Lines(event.stages, self._terminal, verbose=self._detail == "verbose")
            self._progress = RunProgress()  # `orun init` shows several runs
        if self._live is None and self._terminal.live and isinstance(event, (StageStarted, StageWaiting)):
            from orun.report.live import Live

            self._live = Live(self._stream, self._terminal, self._progress)
        self._progress.apply(event)
        line = self._lines.format_event(event)
        if line:
            self._print(line)

    def finish(self, result: RunResult, look_into: Callable[[RunResult], None] = lambda _: None) -> None:
        """Show the tables, then what `look_into` shows about the run, and the verdict as the last line."""
        self.close()
        lines = format_tables(result, self._terminal, self._detail)
        for line in lines:
            self._print(line)
        try:
            look_into(result)
        finally:
            verdict = self._fold_verdict(summarize(result, self._terminal))
            for line in ("", *verdict) if lines else verdict:
                self._print(line)

    def _fold_verdict(self, parts: Sequence[str]) -> list[str]:
        """Return the verdict in one line, or each part of it on lines of its own that fit the terminal."""
        verdict = "; ".join(parts)
        if not self._terminal.live or measure_width(verdict) <= self._terminal.width:
            return [verdict]
        first, *rest = parts
        return [line for part in (first, *(f"  {part}" for part in rest)) for line in wrap(part, self._terminal.width)]

    def close(self) -> None:
        """Leave the terminal as it was; safe to call twice."""
        self._end_waiting()
        if self._live:
            self._live.close()
            self._live = None

    def _end_waiting(self) -> None:
        if self._waiting:
            self._waiting.close()

    def _print(self, line: str) -> None:
        if self._live:
            self._live.print(line)
        else:
            print(line, file=self._stream, flush=True)


def format_tables(result: RunResult, terminal: Terminal, detail: Detail) -> list[str]:
    """Return what is shown of a finished run before its verdict: stages, failures and gates, with blank lines between.

    Quiet leaves out all but failures and failed gates.
    """
    quiet = detail == "quiet"
    blocks = [
        [] if quiet else format_stage_table(result, terminal, verbose=detail == "verbose"),
        [] if quiet else format_undeclared_writes(result, terminal),
        [] if quiet else format_stage_notes(result, terminal),
        _format_failures(result, terminal),
        [] if quiet else format_gate_table(result, terminal),
        [] if quiet else format_caveat_notes(result, terminal),
        format_gate_notes(result, terminal, failing_only=quiet),
    ]
    return [line for block in blocks if block for line in ("", *block)][1:]


def _format_failures(result: RunResult, terminal: Terminal) -> list[str]:
    if not any(stage.failure for stage in result.stages):
        return []
    from orun.report.failures import format_failures  # its patterns are compiled: not for a run with nothing to do

    return format_failures(result, terminal)
