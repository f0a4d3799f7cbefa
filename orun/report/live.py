"""The lines of running stages, redrawn while they run.

The only user of rich: imported when a stage starts, not before.
"""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from orun.core.events import Event, StageFinished, StageProgress, StageStarted, StageWaiting
from orun.report.terminal import Terminal
from orun.text.units import show

REDRAWS = 2  # a second: a stage that measures time may be running, and redrawing takes time from it


class Live:
    """Shows what runs now below the lines that stay."""

    def __init__(self, stream: TextIO, terminal: Terminal) -> None:
        console = Console(
            file=stream, force_terminal=True, no_color=not terminal.colour, width=terminal.width, highlight=False
        )
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
            refresh_per_second=REDRAWS,
        )
        self._tasks: dict[str, TaskID] = {}
        self._progress.start()

    def show(self, event: Event) -> None:
        """Bring the running stages up to date."""
        if isinstance(event, StageStarted):
            self._remove(event.stage)  # the clock of a stage that waited starts anew
            self._put(event.stage, f"of about {show(event.seconds, 's')}" if event.seconds else "")
        elif isinstance(event, StageWaiting):
            self._put(event.stage, f"waiting for {event.what}")
        elif isinstance(event, StageProgress):
            share = f"{event.done} of {event.total} " if event.total else ""
            self._put(event.stage, f"{share}{event.what}")
        elif isinstance(event, StageFinished):
            self._remove(event.result.stage)

    def print(self, line: str) -> None:
        """A line that stays, above the running stages."""
        self._progress.console.print(Text.from_ansi(line), soft_wrap=True)

    def close(self) -> None:
        """Clear the running stages away; the terminal is as before."""
        self._progress.stop()

    def _remove(self, stage: str) -> None:
        if stage in self._tasks:
            self._progress.remove_task(self._tasks.pop(stage))

    def _put(self, stage: str, note: str) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(escape(stage), total=None, note="")
        self._progress.update(self._tasks[stage], note=escape(note))
