"""Live region of a terminal: a line for each running stage and a bar for the run, redrawn while stages run.

The only user of rich: imported when a stage starts, not before.
"""

from __future__ import annotations

from typing import TextIO

from rich import live, spinner
from rich.cells import cell_len
from rich.console import Console, Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from orun.report.progress import RunProgress
from orun.report.terminal import Terminal

REDRAWS = 2  # a second: a stage that measures time may be running, and redrawing takes time from it
BAR = 20  # columns
LONGEST_NAME = 30  # columns of a stage's name


class Live:
    """Shows the progress of a run below the lines that stay.

    A thread redraws the region unless `redraws` is false: then it is drawn at the start and with each line.
    """

    def __init__(self, stream: TextIO, terminal: Terminal, progress: RunProgress, *, redraws: bool = True) -> None:
        console = Console(
            file=stream, force_terminal=True, no_color=not terminal.colour, width=terminal.width, highlight=False
        )
        self._progress = progress
        self._spinner = spinner.Spinner("dots")
        self._live = live.Live(
            console=console,
            get_renderable=self.render,
            transient=True,
            auto_refresh=redraws,
            refresh_per_second=REDRAWS,
        )
        self._live.start()

    def print(self, line: str) -> None:
        """Print a line that stays, above the live region."""
        self._live.console.print(Text.from_ansi(line), soft_wrap=True)

    def close(self) -> None:
        """Clear the live region; the terminal is as before."""
        self._live.stop()

    def render(self) -> Group:
        """Return the region: a line for each running stage, and the bar."""
        running = list(self._progress.iter_stages())
        names = min(max((cell_len(name) for name, _ in running), default=0), LONGEST_NAME)
        lines = [self._build_line(name, text, names) for name, text in running]
        bar = Table.grid(padding=(0, 2, 0, 0))
        bar.add_column(width=BAR)
        bar.add_column(no_wrap=True, overflow="ellipsis")
        total = max(self._progress.total, 1)
        done = min(len(self._progress.done), total)
        bar.add_row(ProgressBar(total, done, width=BAR, complete_style="green"), Text(self._progress.summarize()))
        return Group(*lines, bar)

    def _build_line(self, name: str, text: str, width: int) -> Table:
        shown = Text(name, style="bold")
        shown.truncate(width, overflow="ellipsis", pad=True)
        line = Table.grid(padding=(0, 1, 0, 0), expand=True)
        line.add_column(no_wrap=True, width=1)
        line.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        line.add_row(self._spinner, Text.assemble(shown, "  ", text))
        return line
