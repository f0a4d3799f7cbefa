"""The lines of running stages on a terminal."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from orun.core.events import Event, StageFinished, StageProgress, StageStarted, StageWaiting
from orun.core.run_record import StageResult
from orun.report.live import Live
from orun.report.terminal import Terminal
from tests.facts import said

STARTED = StageStarted("int8[per_channel=true]", said("never run before"), "int8.log", 3.4)


@contextmanager
def live(stream: io.StringIO, *, colour: bool = False) -> Iterator[Live]:
    """A live region that is redrawn by the test alone, so that what it shows is exact."""
    region = Live(stream, Terminal(colour=colour, live=True, width=100))
    region._progress.live.auto_refresh = False
    yield region
    region.close()


def drawn(*events: Event) -> str:
    """What is shown after these events: the last line drawn."""
    stream = io.StringIO()
    with live(stream) as region:
        for event in events:
            region.show(event)
        stream.truncate(0)
        region._progress.refresh()
        return stream.getvalue()


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (STARTED, "of about 3.4 s"),
        (StageStarted("int8", said("never run before"), "int8.log", None), "int8"),
        (StageProgress("int8", 3, 10, "3 of 10 quantizing [MatMul]"), "3 of 10 quantizing [MatMul]"),
        (StageProgress("int8", 3, 0, "examples"), "0:00:00 examples"),
        (StageWaiting("int8", "another orun measures"), "waiting for another orun measures"),
    ],
)
def test_what_is_shown_of_a_running_stage(event: Event, expected: str) -> None:
    assert expected in drawn(event)


def test_the_name_of_a_matrix_stage_is_shown_as_it_is() -> None:
    assert "int8[per_channel=true]" in drawn(STARTED)


def test_a_finished_stage_is_gone() -> None:
    shown = drawn(STARTED, StageFinished(StageResult("int8[per_channel=true]", "quantize/dynamic", "built")))
    assert "int8" not in shown


def test_lines_that_stay_keep_their_colours() -> None:
    stream = io.StringIO()
    with live(stream, colour=True) as region:
        region.print("\x1b[1;31mfailed\x1b[0m: [red]not markup[/red]")
    assert "\x1b[1;31mfailed\x1b[0m: [red]not markup[/red]\n" in stream.getvalue()
