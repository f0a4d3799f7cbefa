"""The line that says what orun reads before a run starts."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest

from orun.core.activity import report
from orun.core.events import Notice, Planning, RunStarted
from orun.report import waiting
from orun.report.console import Console
from orun.report.terminal import Terminal
from orun.report.waiting import CLEAR, WaitingLine, waiting_line

STARTED = RunStarted("id", "bert", "bert.yaml", ("int8",), 2, 0.0, {}, Path("runs/id"))
LOG, SCREEN = Terminal(), Terminal(live=True, width=40)
PATIENCE = 60  # seconds


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines appear at once, and not again."""
    monkeypatch.setattr(waiting, "IN_LOG", (0.0, PATIENCE))
    monkeypatch.setattr(waiting, "ON_TERMINAL", (0.0, PATIENCE))


def wait_for(stream: io.StringIO) -> str:
    """Return what was written, once that is something."""
    until = time.monotonic() + PATIENCE
    while not stream.getvalue():
        assert time.monotonic() < until
        time.sleep(0.01)
    return stream.getvalue()


@pytest.mark.usefixtures("hasty")
def test_a_log_gets_a_line() -> None:
    stream = io.StringIO()
    line = WaitingLine(stream, LOG)
    line.note("planning int8 (3 of 10): reading weights.bin")
    assert wait_for(stream) == "planning int8 (3 of 10): reading weights.bin\n"
    line.close()
    line.close()
    assert stream.getvalue() == "planning int8 (3 of 10): reading weights.bin\n"


@pytest.mark.usefixtures("hasty")
def test_a_terminal_shows_one_line_that_fits_and_goes() -> None:
    stream = io.StringIO()
    line = WaitingLine(stream, SCREEN)
    line.note("planning int8 (3 of 10): reading weights.bin")
    assert wait_for(stream) == f"{CLEAR}0 s  planning int8 (3 of 10): reading"
    line.close()
    assert stream.getvalue().endswith(f"reading{CLEAR}")


def test_the_latest_activity_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "IN_LOG", (0.0, 0.01))
    stream = io.StringIO()
    line = WaitingLine(stream, LOG)
    line.note("planning export (1 of 10)")
    wait_for(stream)
    line.note("planning int8 (2 of 10)")
    until = time.monotonic() + PATIENCE
    while "int8" not in stream.getvalue() and time.monotonic() < until:
        time.sleep(0.01)
    line.close()
    assert list(dict.fromkeys(stream.getvalue().splitlines())) == [
        "planning export (1 of 10)",
        "planning int8 (2 of 10)",
    ]


@pytest.mark.parametrize("terminal", [LOG, SCREEN])
def test_what_is_done_at_once_is_not_shown(terminal: Terminal) -> None:
    stream = io.StringIO()
    with waiting_line(stream, terminal):
        report("planning int8 (1 of 1)")
    report("nobody listens")
    assert stream.getvalue() == ""


@pytest.mark.usefixtures("hasty")
def test_a_run_shows_it_until_the_next_event() -> None:
    stream = io.StringIO()
    console = Console(stream, LOG)
    console(Planning("reading bert.yaml"))
    wait_for(stream)
    console(Notice("info", "two machines are here"))
    console(Planning("planning int8 (1 of 1)"))
    console(STARTED)
    assert stream.getvalue().splitlines()[:2] == ["reading bert.yaml", "info: two machines are here"]
    console.close()


@pytest.mark.usefixtures("hasty")
def test_a_quiet_run_does_not() -> None:
    stream = io.StringIO()
    console = Console(stream, LOG, "quiet")
    console(Planning("reading bert.yaml"))
    console.close()
    assert stream.getvalue() == ""
