"""Line that says what orun reads, digests or looks for, shown once that takes longer than a moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import TextIO

from orun.core.activity import report_to
from orun.report.table import wrap
from orun.report.terminal import Terminal
from orun.text.units import show

CLEAR = "\r\x1b[2K"


# Seconds of silence before the first line, and between two lines: a terminal shows one line, a log keeps each.
ON_TERMINAL, IN_LOG = (0.3, 0.5), (0.5, 5.0)


class WaitingLine:
    """Shows the last activity that was noted, from a thread of its own, until it is closed."""

    def __init__(self, stream: TextIO, terminal: Terminal) -> None:
        self._stream = stream
        self._terminal = terminal
        self._activity = ""
        self._ended = Event()
        self._thread: Thread | None = None

    def note(self, activity: str) -> None:
        """Take note of what begins now."""
        self._activity = activity
        if self._thread is None:
            self._ended.clear()
            self._thread = Thread(target=self._show, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop, and leave the terminal as it was; safe to call twice."""
        if self._thread:
            self._ended.set()
            self._thread.join()
            self._thread = None

    def _show(self) -> None:
        began, live = monotonic(), self._terminal.live
        patience, pause = ON_TERMINAL if live else IN_LOG
        if self._ended.wait(patience):
            return
        while True:
            elapsed = show(float(int(monotonic() - began)), "s")
            text = wrap(f"{elapsed}  {self._activity}", max(self._terminal.width - 1, 1))[0]  # of a line that must fit
            self._write(f"{CLEAR}{text}" if live else f"{self._activity}\n")
            if self._ended.wait(pause):
                break
        if live:
            self._write(CLEAR)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


@contextmanager
def waiting_line(stream: TextIO, terminal: Terminal) -> Iterator[None]:
    """Show what is reported inside of the block."""
    line = WaitingLine(stream, terminal)
    try:
        with report_to(line.note):
            yield
    finally:
        line.close()
