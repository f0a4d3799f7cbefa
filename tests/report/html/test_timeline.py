"""When stages waited and ran, as the log of the run says."""

from __future__ import annotations

from pathlib import Path

from orun.core.events import Event, Notice, RunStarted, StageFinished, StageStarted, StageWaiting, build_line
from orun.core.run_record import RunResult
from orun.core.serialization import encode, replace, to_json
from orun.report.html.page import render_page
from tests.facts import reasons_of
from tests.report.pages import read, titles
from tests.report.support import ACCURACY, INT8, LATENCY, NOW, PASSED


def log_of(folder: Path, events: list[tuple[float, Event]]) -> None:
    lines = [to_json(build_line(event, encode(event), NOW + after)) for after, event in events]
    (folder / "events.jsonl").write_bytes(b"\n".join([*lines, b""]))


def started(result: RunResult) -> RunStarted:
    names = tuple(stage.stage for stage in result.stages)
    return RunStarted("1", "bert", "bert.yaml", names, 2, NOW, {}, result.folder)


def test_the_timeline_says_when_stages_waited_and_ran(tmp_path: Path) -> None:
    result = replace(PASSED, folder=tmp_path)
    log_of(tmp_path, [
        (0.1, started(result)),
        (0.5, StageStarted("int8", reasons_of("r"), "l", None)),
        (4.0, StageFinished(INT8)),
        (4.0, StageWaiting("accuracy", "the machine")),
        (5.0, StageStarted("accuracy", reasons_of("r"), "l", None)),
        (12.0, StageFinished(ACCURACY)),
        (12.0, StageFinished(LATENCY)),
        (12.1, Notice("warning", "out/bert/`int8` was put back")),
    ])  # fmt: skip
    document = read(render_page(result))
    section = document.at("timeline")
    assert [element.only("title").text for element in section.every("rect", "run")] == [
        "int8: built, from 500 ms to 4 s of the run", "accuracy: built, from 5 s to 12 s of the run",
    ]  # fmt: skip
    assert section.only("rect", "waited").text == "accuracy waited for the machine, 1 s"
    assert [element.every("td")[0].text for element in section.every("tr")[2:]] == ["3.25 s", "6.5 s"]
    assert [element.text for element in section.only("div", "x-axis").every("span")] == ["0 s", "5 s", "10 s", "15 s"]
    assert document.at("notices").only("li").text == "?warning out/bert/int8 was put back"


def test_a_log_that_cannot_be_read_leaves_the_timeline_out(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(b'{"version":3,"event":"of a later orun","time":1}\nhalf a li')
    assert "Timeline" not in titles(read(render_page(replace(PASSED, folder=tmp_path))))
