"""An event as a line of text, for terminals and logs alike."""

from __future__ import annotations

from collections.abc import Sequence

from orun.core.events import Event, Notice, StageFinished, StageStarted, StageWaiting
from orun.core.run_record import StageResult
from orun.report.stages import STYLES, format_reasons
from orun.report.terminal import Terminal
from orun.text.units import show


class Lines:
    """Turns events into lines, aligned by the longest stage name."""

    def __init__(self, stages: Sequence[str], terminal: Terminal, *, verbose: bool = False) -> None:
        self._width = max((len(stage) for stage in stages), default=0)
        self._terminal = terminal
        self._verbose = verbose
        self._shown: set[str] = set()

    def format_event(self, event: Event) -> str:
        """Return the line of an event; empty for one that the tables at the end tell well enough."""
        if isinstance(event, StageStarted):
            self._shown.add(event.stage)
            place = f" on {event.machine}" if event.machine else ""
            expected = f" (took {show(event.seconds, 's')} last time)" if event.seconds is not None else ""
            reasons = format_reasons(event.reasons, every=self._verbose)
            return self._format_stage(event.stage, f"running{place}: {reasons}{expected}")
        if isinstance(event, StageWaiting):
            self._shown.add(event.stage)
            return self._format_stage(event.stage, f"waiting for {event.waits_for}")
        if isinstance(event, StageFinished):
            return self._format_finished(event.result)
        if isinstance(event, Notice):
            return f"{self._terminal.paint(event.level, 'doubt' if event.level == 'warning' else 'dim')}: {event.text}"
        return ""

    def _format_finished(self, result: StageResult) -> str:
        if result.failure:
            text = f"failed: {result.failure.problem}"
        elif result.stage not in self._shown:
            return ""
        elif result.outcome == "built":
            text = f"built in {show(result.seconds, 's')}" + (f", {show(result.size, 'B')}" if result.size else "")
        else:
            text = result.outcome  # another process did the work meanwhile
        return self._format_stage(result.stage, self._terminal.paint(text, STYLES[result.outcome]))

    def _format_stage(self, stage: str, text: str) -> str:
        return f"{self._terminal.paint(stage.ljust(self._width), 'strong')}  {text}"
