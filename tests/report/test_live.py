"""The live region of a terminal: running stages and a bar for the run."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from orun.core.events import Event, RunStarted, StageFinished, StageProgress, StageStarted, StageWaiting
from orun.core.run_record import StageResult
from orun.report import progress
from orun.report.live import Live
from orun.report.progress import RunProgress
from orun.report.terminal import Terminal
from tests.facts import reasons_of

INT8 = "int8[per_channel=true]"
STAGES = ("export", INT8, "latency")
RUN = RunStarted("id", "bert", "bert.yaml", STAGES, 2, 0.0, {}, Path("runs/id"), expected={INT8: 3.4, "latency": 19.0})
STARTED = StageStarted(INT8, reasons_of("never run before"), "int8.log", 3.4)
EXPORTED = StageFinished(StageResult("export", "convert/torch", "cached"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the progress takes for now."""
    now = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


@contextmanager
def live(stream: io.StringIO, run: RunProgress, *, colour: bool = False, width: int = 72) -> Iterator[Live]:
    """A live region that is redrawn by the test alone, so that what it shows is exact."""
    region = Live(stream, Terminal(colour=colour, live=True, width=width), run, redraws=False)
    yield region
    region.close()


def drawn(run: RunProgress, width: int = 72) -> list[str]:
    """The lines of the region, without the spinner and the bar."""
    with live(io.StringIO(), run, width=width) as region:
        shown = region.render()
    stream = io.StringIO()
    Console(file=stream, width=width).print(shown)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    assert all(len(line) <= width for line in lines)
    return [re.sub("^[\u2800-\u28ff\u2501\u2578\u257a ]+", "", line) for line in lines]


def after(clock: list[float], *events: tuple[float, Event]) -> RunProgress:
    """The progress after events at these seconds."""
    run = RunProgress()
    for seconds, event in events:
        clock[0] = 100.0 + seconds
        run.apply(event)
    return run


def test_each_running_stage_has_a_line_and_the_run_a_bar(clock: list[float]) -> None:
    run = after(clock, (0, RUN), (0, EXPORTED), (0, STARTED))
    clock[0] = 102.0
    assert drawn(run) == [
        "int8[per_channel=true]  2 s of about 3.4 s",
        "1 of 3 stages, 2 s, about 20 s left",
    ]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (StageStarted("int8", reasons_of("never run before"), "int8.log", None), "int8  0 s"),
        (StageProgress("int8", 3, 10, "examples [0]"), "int8  0 s, 3 of 10 examples [0]"),
        (StageProgress("int8", 3, 0, "examples"), "int8  0 s, examples"),
        (StageWaiting("int8", "another orun measures"), "int8  0 s, waiting for another orun measures"),
    ],
)
def test_what_is_shown_of_a_running_stage(clock: list[float], event: Event, expected: str) -> None:
    assert drawn(after(clock, (0, event)))[0] == expected


def test_a_stage_that_waited_starts_its_clock_anew(clock: list[float]) -> None:
    run = after(clock, (0, RUN), (0, StageWaiting(INT8, "another orun")), (9, STARTED))
    assert drawn(run)[0] == "int8[per_channel=true]  0 s of about 3.4 s"


@pytest.mark.parametrize("event", [StageProgress(INT8, 2, 3, "launches"), StageWaiting(INT8, "another orun")])
def test_a_finished_stage_is_gone_and_stays_so(clock: list[float], event: Event) -> None:
    """A line `latency  0 s, 2 of 3 launches` was left after the stage was built."""
    run = after(clock, (0, RUN), (0, STARTED), (4, StageFinished(StageResult(INT8, "quantize/dynamic", "built"))))
    assert drawn(run) == ["1 of 3 stages, 4 s, about 19 s left"]
    run.apply(event)
    assert drawn(run) == ["1 of 3 stages, 4 s, about 19 s left"]


def test_no_time_is_promised_if_a_stage_never_ran(clock: list[float]) -> None:
    run = after(clock, (0, RUN), (0, StageStarted("latency", reasons_of("never run before"), "l", None)))
    assert run.estimate_seconds_left() is None
    assert drawn(run)[-1] == "0 of 3 stages, 0 s"


def test_stages_at_a_time_share_the_time_left(clock: list[float]) -> None:
    run = after(clock, (0, RUN), (0, STARTED), (0, StageStarted("latency", reasons_of("r"), "l", 19.0)))
    assert run.estimate_seconds_left() == 19.0
    clock[0] = 130.0
    assert run.estimate_seconds_left() == 0.0
    assert drawn(run)[-1] == "0 of 3 stages, 30 s"


def test_a_long_name_keeps_to_the_width(clock: list[float]) -> None:
    run = after(clock, (0, StageStarted("x" * 200, reasons_of("r"), "l", 3.4)))
    assert drawn(run, 48)[0] == f"{'x' * 29}\u2026  0 s of about \u2026"


def test_lines_that_stay_keep_their_colours() -> None:
    stream = io.StringIO()
    with live(stream, RunProgress(), colour=True) as region:
        region.print("\x1b[1;31mfailed\x1b[0m: [red]not markup[/red]")
    assert "\x1b[1;31mfailed\x1b[0m: [red]not markup[/red]\n" in stream.getvalue()
