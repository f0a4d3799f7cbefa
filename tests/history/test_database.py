"""The database of measurements."""

from __future__ import annotations

import dataclasses
import math
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from orun.codec import replace
from orun.errors import StoreError
from orun.history import History, location, points_of
from orun.history.points import machine_of
from orun.metrics import Metric
from tests.history.support import point
from tests.report.support import NOW, PASSED


def test_what_a_run_measured_itself_is_what_it_built() -> None:
    found = points_of(PASSED)
    assert {(one.stage, one.metric) for one in found} == {
        ("int8", "size"),
        ("int8", "nodes"),
        ("accuracy", "examples"),
        ("accuracy", "cosine.mean"),
        ("accuracy", "cosine.min"),
        ("accuracy", "recall_at_1"),
    }  # latency was cached: its measurement was remembered when it was made
    recall = next(one for one in found if one.metric == "recall_at_1")
    assert (recall.value, recall.low, recall.high, recall.unit) == (0.9135, 0.878, 0.942, "ratio")
    assert (recall.host, recall.machine) == ("builder", machine_of({"host": "builder"}))
    assert (recall.run, recall.measured_at) == (PASSED.run, NOW)


def test_points_come_back_as_they_were_and_once(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    assert history.points() == ()
    late, early = point(2.0, 20), replace(point(1.0, 10), low=0.5, high=1.5)
    history.add([late, early])
    history.add([late])
    assert history.points() == (early, late)
    assert history.points(pipeline="other") == ()


def test_the_run_that_measured_first_is_kept(tmp_path: Path) -> None:
    history, first = History(tmp_path / "history.sqlite"), point(1.0, 100.0)
    history.add([first])
    history.add([dataclasses.replace(first, run="another", value=2.0)])
    assert history.points() == (first,)


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
    infinite, nothing = history.points()
    assert infinite.value == math.inf
    assert math.isnan(nothing.value)


def test_a_stage_that_measured_something_odd(tmp_path: Path) -> None:
    odd = replace(PASSED.stages[1], metrics={"loss": Metric(math.nan)})
    (one,) = points_of(replace(PASSED, stages=(odd,)))
    History(tmp_path / "h").add([one])
    assert math.isnan(History(tmp_path / "h").points()[0].value)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(StoreError) as caught:
        History(path).points()
    assert str(caught.value) == (
        f"the history {path} cannot be used\n"
        "  file is not a database\n"
        "  hint: if it is damaged, put it aside; the next run begins a new one:\n"
        f"  hint: mv {path} {path}.damaged"
    )


def test_a_database_of_a_later_version(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 2")
    database.close()
    with pytest.raises(StoreError) as caught:
        History(path).add([point(1.0, 1)])
    assert str(caught.value) == (
        f"the history {path} was written by a later version of orun\n"
        "  its format is 2; this version knows 1\n"
        "  hint: upgrade orun: pip install --upgrade orun"
    )


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORUN_HISTORY", raising=False)
    assert location(tmp_path) == tmp_path / "history.sqlite"
    monkeypatch.setenv("ORUN_HISTORY", "/shared/h.sqlite")
    assert location(tmp_path) == Path("/shared/h.sqlite")
