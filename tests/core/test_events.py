"""The event log: of the documented form, and enough to make the record of the run and every report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from orun.core.events import KINDS, Event, StageProgress, StageWaiting, build_line, name_kind, parse_event
from orun.core.run_record import RunResult
from orun.core.serialization import encode
from orun.errors import StoreError
from orun.eventlog import Reducer, read_log, read_result
from orun.report import event_schema
from orun.store.checksummed_json import encode_checksummed
from tests.facts import named
from tests.project import Project

GATED = """
name: text
stages:
  make:
    uses: ./stages.py:make
    with: {text: a b}
    gate:
      length: {max: 10}
  upper: {uses: ./stages.py:upper, needs: make}
  count:
    uses: ./stages.py:count
    needs: upper
    gate:
      words: {min: 5}
"""
SCHEMA = jsonschema.Draft7Validator(event_schema.build())
WAITING = StageWaiting("int8", "another process")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path / "project", GATED)


def lines(result: RunResult) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (result.folder / "events.jsonl").read_text().splitlines()]


def problems(log: Sequence[dict[str, Any]]) -> list[str]:
    return [error.message for line in log for error in SCHEMA.iter_errors(line)]


def record(result: RunResult) -> RunResult:
    return read_result(result.folder)


def test_a_record_of_another_version_is_said(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(encode_checksummed({"run": "1", "of_later": True}))
    with pytest.raises(StoreError) as caught:
        read_result(tmp_path)
    assert str(caught.value) == (
        f"the record {path} is not one that this version of orun can read\n"
        "  Object contains unknown field `of_later`\n"
        f"  hint: Remove it; results do not depend on it: rm {path}"
    )


def test_the_schema_is_one() -> None:
    jsonschema.Draft7Validator.check_schema(event_schema.build())
    assert len(event_schema.build()["oneOf"]) == len(KINDS)


def test_the_log_of_a_run_is_as_documented_and_makes_its_record(project: Project) -> None:
    result = project.run(set={"stages.make.with.text": "a b c"})
    assert problems(lines(result)) == []
    log = [line for line in lines(result) if line["event"] != "stage_waiting"]  # for other processes that measure
    assert [line["event"] for line in log[:3]] == ["run_started", "stage_started", "stage_finished"]
    assert log[-1]["event"] == "run_finished"
    assert {line["event"] for line in log} == {
        "run_started", "stage_started", "stage_finished", "gate_judged", "run_finished",
    }  # fmt: skip
    assert {line["version"] for line in log} == {3}
    assert result.exit_code == 1
    assert result.overrides == {"stages.make.with.text": "a b c"}
    assert list(result.sources) == ["pipeline.yaml", "stages.py"]
    assert named(result["upper"].inputs)["parameter mark"] == '"!"'
    assert "read helper.py" in named(result["upper"].inputs)
    assert {stage.stage: stage.needs for stage in result.stages if stage.needs} == {
        "upper": ("make",), "count": ("upper",),
    }  # fmt: skip
    assert read_log(result.folder / "events.jsonl") == result == record(result)


def test_a_run_that_repeats_another_says_so_in_its_log(project: Project) -> None:
    project.edit("pipeline.yaml", "min: 5", "min: 2")
    first, second = project.run(), project.run()
    assert (first.repeats, second.repeats) == ("", first.run)
    assert problems(lines(second)) == []
    assert {stage.outcome for stage in second.stages} == {"cached"}
    assert second["upper"].inputs == ()
    assert read_log(second.folder / "events.jsonl") == second == record(second)


def test_a_run_repeats_none_that_is_gone(project: Project) -> None:
    """A collection removes the folders of old runs; `orun diff` and `orun bisect` need the one that is repeated."""
    project.edit("pipeline.yaml", "min: 5", "min: 2")
    first, second = project.run(), project.run()
    shutil.rmtree(first.folder)
    third, fourth = project.run(), project.run()
    assert (second.repeats, third.repeats, fourth.repeats) == (first.run, "", third.run)
    assert {stage.outcome for stage in third.stages} == {"cached"}
    assert named(third["upper"].inputs)["parameter mark"] == '"!"'


def test_a_failure_and_a_notice_are_as_documented(project: Project) -> None:
    project.run()
    (project.store / "out" / "text" / "make" / "text").unlink()
    restored = lines(project.run())
    assert "notice" in {line["event"] for line in restored}
    project.edit("deep.py", "return text.split()", "raise ValueError(text)")
    result = project.run()
    assert problems([*restored, *lines(result)]) == []
    assert result["upper"].failure is not None
    assert result["count"].outcome == "blocked"
    assert read_log(result.folder / "events.jsonl") == result == record(result)


def test_every_event_comes_back_from_its_line(project: Project) -> None:
    project.run()
    events: list[Event] = [*project.events, StageWaiting("make", "another"), StageProgress("make", 1, 2, "rows")]
    for event in events:
        line = json.loads(json.dumps(build_line(event, encode(event), 1.0)))
        assert problems([line]) == []
        assert parse_event(line) == event


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"waits_for": 3}, "3 is not of type 'string'"),
        ({"more": 1}, "Additional properties are not allowed ('more' was unexpected)"),
        ({"version": 2}, "3 was expected"),
        ({"event": "stage_lost"}, "'stage_waiting' was expected"),
    ],
)
def test_what_is_not_documented_is_found(change: dict[str, Any], problem: str) -> None:
    line = build_line(WAITING, encode(WAITING), 1.0) | change
    validator = jsonschema.Draft7Validator({**event_schema.build(), "oneOf": [{"$ref": "#/definitions/StageWaiting"}]})
    messages = [error.message for outer_error in validator.iter_errors(line) for error in outer_error.context or ()]
    assert problem in messages
    assert problems([line]) != []


def test_another_version_is_refused() -> None:
    line = build_line(WAITING, encode(WAITING), 1.0) | {"version": 2}
    with pytest.raises(ValueError, match=r"^the event log has version 2, and this orun reads version 3$"):
        parse_event(line)


def test_the_log_of_a_run_that_goes_on_makes_no_result(project: Project, tmp_path: Path) -> None:
    log = (project.run().folder / "events.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_text("".join(log[:-1]))
    with pytest.raises(ValueError, match=r"^the run has not ended$"):
        read_log(tmp_path / "cut.jsonl")
    with pytest.raises(ValueError, match=r"^no run_started among the events$"):
        Reducer().build_result(0, 1.0)


def test_the_names_of_events() -> None:
    assert [name_kind(kind) for kind in KINDS] == [
        "run_started", "stage_waiting", "stage_started", "stage_progress", "stage_finished", "gate_judged", "notice",
        "run_finished",
    ]  # fmt: skip
