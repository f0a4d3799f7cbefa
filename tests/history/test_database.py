"""The database of measurements."""

from __future__ import annotations

import dataclasses
import math
import os
import sqlite3
import stat
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from orun.core.metrics import Metric
from orun.core.serialization import replace
from orun.errors import StoreError
from orun.history import History, Point, list_points, list_points_used_again, locate_history
from orun.history.points import digest_hardware, group_points
from orun.history.search import find_past
from tests.facts import components
from tests.history.support import point
from tests.report.support import COSINE, INT8, NOW, PASSED


def test_what_a_run_measured_itself_is_what_it_built() -> None:
    points = list_points(PASSED)
    assert {(point.stage, point.metric) for point in points} == {
        ("int8", "size"),
        ("int8", "nodes"),
        ("accuracy", "examples"),
        ("accuracy", "cosine.mean"),
        ("accuracy", "cosine.min"),
        ("accuracy", "recall_at_1"),
    }  # latency was cached: its measurement was remembered when it was made
    recall = next(point for point in points if point.metric == "recall_at_1")
    assert (recall.value, recall.low, recall.high, recall.unit) == (0.9135, 0.878, 0.942, "ratio")
    assert (recall.host, recall.machine, recall.runtime) == ("builder", digest_hardware({}), "")
    assert (recall.run, recall.measured_at) == (PASSED.run, NOW)


def test_a_cached_value_is_of_interest_unless_it_is_the_last_of_its_series() -> None:
    """Nor is a time, or the first value of a series, which another pipeline measured."""
    odd = Metric(math.nan)
    cached = replace(INT8, outcome="cached", metrics={**INT8.metrics, "odd": odd})
    run = replace(PASSED, stages=(cached, PASSED["latency"]))
    names = {name: ("bert", stage.stage, name, digest_hardware({})) for stage in run.stages for name in stage.metrics}
    points = list_points_used_again(run, dict.fromkeys(names.values(), 1.0))
    assert [(point.metric, point.run, point.measured_at) for point in points] == [
        ("size", run.run, run.started_at),
        ("nodes", run.run, run.started_at),
        ("odd", run.run, run.started_at),
    ]
    last = {names["size"]: 22_900_000.0, names["nodes"]: 311.0, names["odd"]: math.nan}
    assert list_points_used_again(run, last) == ()
    assert list_points_used_again(run, {}) == ()


def test_the_last_value_of_each_series(tmp_path: Path) -> None:
    history = History(tmp_path / "h.sqlite")
    assert history.read_last_values("bert") == {}
    history.add([point(3.0, 2.0), point(math.nan, 5.0), point(7.0, 1.0, machine="another")])
    series = ("bert", "latency", "p50")
    last = history.read_last_values("bert")
    assert math.isnan(last.pop((*series, "0123456789ab")))
    assert last == {(*series, "another"): 7.0}
    assert history.read_last_values("other") == {}


FORGE = {
    "device host": "forge",
    "device cpu": "EPYC",
    "device python": "3.11",
    "device runtime": "onnxruntime 1.24.1",
    "device gpu name": "NVIDIA H100",
    "device gpu driver_version": "580.65",
    "device cpu of reference_target": "another",
    "tool numpy": "numpy 2.3.1",
}


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("device host", False),
        ("device cpu", False),
        ("device gpu name", False),
        ("device runtime", True),
        ("device python", True),
        ("device gpu driver_version", True),
        ("device cpu of reference_target", True),
        ("tool numpy", True),
    ],
)
def test_a_series_is_of_one_machine_whatever_runs_on_it(name: str, *, same: bool) -> None:
    def measured(inputs: Mapping[str, str]) -> Point:
        return list_points(replace(PASSED, stages=(replace(INT8, inputs=components(inputs)),)))[0]

    before, after = measured(FORGE), measured({**FORGE, name: "other"})
    assert (before.machine == after.machine) == same
    assert (before.runtime, after.runtime) == (
        "onnxruntime 1.24.1",
        "other" if name == "device runtime" else before.runtime,
    )


def test_the_past_of_a_runs_gates_is_of_its_machine(tmp_path: Path) -> None:
    """It is found by the key that the figure was measured under, as a run that repeats another names no device."""
    history = History(tmp_path / "history.sqlite")
    here, there = point(1.0, 10, machine="here"), point(2.0, 20, machine="there")
    history.add([here, replace(here, measured_at=30, key="d" * 64), replace(there, key="e" * 64)])
    history.add([replace(point(3.0, 40, machine="here"), metric="mean"), replace(here, stage="other")])
    (series,) = find_past(history, PASSED)
    assert [(point.measured_at, point.machine) for point in series.points] == [(10, "here"), (30, "here")]
    assert find_past(history, replace(PASSED, verdicts=(COSINE,))) == ()
    assert find_past(History(tmp_path / "none.sqlite"), PASSED) == ()


def test_points_come_back_as_they_were_and_once(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    assert history.read_points() == ()
    late, early = point(2.0, 20), replace(point(1.0, 10), low=0.5, high=1.5)
    history.add([late, early])
    history.add([late])
    assert history.read_points() == (early, late)
    assert history.read_points(pipeline="other") == ()


def test_the_last_run_is_the_last_where_the_clock_was_set_back(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    before, after = (
        dataclasses.replace(point(1.0, at), run=run) for run, at in (("20260102-a", 20), ("20260103-a", 10))
    )
    history.add([after, before])
    assert history.read_points() == (before, after)
    assert [point.points for point in group_points([after, before])] == [(before, after)]


def test_the_run_that_measured_first_is_kept(tmp_path: Path) -> None:
    history, first = History(tmp_path / "history.sqlite"), point(1.0, 100.0)
    history.add([first])
    history.add([dataclasses.replace(first, run="another", value=2.0)])
    assert history.read_points() == (first,)


def test_a_group_may_write_it_where_the_umask_lets_them(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        History(tmp_path / "history.sqlite").add([point(1.0, 1)])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "history.sqlite").stat().st_mode) == 0o664


def test_values_that_are_no_finite_numbers(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    history.add([point(math.inf, 1), point(math.nan, 2)])
    infinite, nothing = history.read_points()
    assert infinite.value == math.inf
    assert math.isnan(nothing.value)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(StoreError) as caught:
        History(path).read_points()
    assert str(caught.value) == (
        f"the history {path} cannot be used\n"
        "  file is not a database\n"
        "  hint: put it aside, and have a new one made of what runs have measured: orun history --mend"
    )


def test_a_database_of_a_later_version(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 3")
    database.close()
    with pytest.raises(StoreError) as caught:
        History(path).add([point(1.0, 1)])
    assert str(caught.value) == (
        f"the history {path} was written by a later version of orun\n"
        "  its format is 3; this version knows 2\n"
        "  hint: upgrade orun, or keep a history of its own: ORUN_HISTORY=FILE orun ..."
    )


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORUN_HISTORY", raising=False)
    assert locate_history(tmp_path) == tmp_path / "history.sqlite"
    monkeypatch.setenv("ORUN_HISTORY", "/shared/h.sqlite")
    assert locate_history(tmp_path) == Path("/shared/h.sqlite")


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE notes (text)")
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        History(path).add([point(1.0, 1.0)])
    assert str(caught.value) == (
        f"the history {path} cannot be used\n  it is a database of another program\n"
        "  hint: name another file in $ORUN_HISTORY"
    )
    assert path.read_bytes() == before


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    history = History(tmp_path / "pipe")
    os.mkfifo(history.path)
    with pytest.raises(StoreError, match="cannot be used\n  it is a pipe or device, not a file"):
        history.read_points()
    with pytest.raises(StoreError, match="cannot be used\n  it is a pipe or device, not a file"):
        history.add([point(1.0, 1.0)])
