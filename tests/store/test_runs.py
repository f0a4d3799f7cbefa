"""Runs: a folder each, found by a beginning of its name."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orun.errors import StoreError, UsageError
from orun.store import Store
from orun.store.checksummed_json import encode_checksummed, read_record
from tests.store.support import empty, flip, truncate


def test_runs_are_named_by_time_and_sort_by_it(store: Store) -> None:
    assert store.list_runs() == ()
    runs = tuple(store.create_run(name) for name in ("bert", "a/b", "bert", "bert"))
    assert store.list_runs() == runs
    assert all(path.parent == store.root / "runs" and path.is_dir() for path in runs)
    assert re.fullmatch(r"\d{8}-\d{6}-\d{6}-bert", runs[0].name)
    assert runs[1].name.endswith("-a%2Fb")


def test_two_runs_of_one_microsecond_have_two_folders(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 100.0, 100.000001])
    monkeypatch.setattr(time, "time", lambda: next(times))
    assert [store.create_run("bert").name for _ in range(2)] == [
        "19700101-000140-000000-bert",
        "19700101-000140-000001-bert",
    ]


def test_a_run_sorts_after_those_before_it_where_the_clock_was_set_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [7200.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    for name in ("20991231-notes", "99999999-999999-abcdef-x"):  # no names of runs
        (store.root / "runs" / name).mkdir()
    first = store.create_run("bert")
    clock[0] = 3600.0
    later = [store.create_run("bert"), store.create_run("a"), store.create_run("bert")]
    assert [path.name for path in later] == [
        "19700101-020000-000001-bert",
        "19700101-020000-000002-a",
        "19700101-020000-000003-bert",
    ]
    clock[0] = 7201.0
    last = store.create_run("bert")
    assert last.name == "19700101-020001-000000-bert"
    assert store.list_runs()[:5] == (first, *later, last)


def test_a_name_that_only_looks_like_a_time_is_no_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 7200.0)
    (store.root / "runs" / "99999999-999999-999999-x").mkdir()
    assert store.create_run("bert").name == "19700101-020000-000000-bert"


def test_a_run_is_found_by_a_beginning(store: Store) -> None:
    for name in ("20261103-101500-000001-bert", "20261103-101500-000001-bert-large", "20261104-080000-000000-bert"):
        (store.root / "runs" / name).mkdir()
    (store.root / "runs" / "notes.txt").touch()
    runs = store.list_runs()
    assert len(runs) == 3
    assert store.run("20261104") == runs[2]
    assert store.run("20261103-101500-000001-bert") == runs[0]
    with pytest.raises(UsageError) as caught:
        store.run("20261103")
    assert str(caught.value) == (
        "2 runs begin with '20261103'\n"
        "  20261103-101500-000001-bert\n"
        "  20261103-101500-000001-bert-large\n"
        f"  hint: see all of them: ls {store.root / 'runs'}"
    )
    with pytest.raises(UsageError) as caught:
        store.run("2025")
    assert str(caught.value).splitlines()[0] == "there is no run '2025'"
    assert str(caught.value).splitlines()[1:4] == [f"  {run.name}" for run in runs]


def test_no_run_yet(store: Store) -> None:
    with pytest.raises(UsageError) as caught:
        store.run("x")
    assert str(caught.value).splitlines()[:2] == ["there is no run 'x'", "  no run is in this store yet"]


def test_a_record_comes_back(store: Store) -> None:
    path = store.create_run("bert") / "record.json"
    record = {"exit_code": 0, "stages": [{"tree": "1" * 64}], "name": "ü"}
    path.write_bytes(encode_checksummed(record))
    assert read_record(path) == record


@pytest.mark.parametrize("damage", [flip, truncate, empty])
def test_a_damaged_record_is_an_error(store: Store, damage: Callable[[Path], None]) -> None:
    path = store.create_run("bert") / "record.json"
    path.write_bytes(encode_checksummed({"exit_code": 0}))
    damage(path)
    with pytest.raises(StoreError) as caught:
        read_record(path)
    assert str(caught.value) == (
        f"the record {path} was damaged\n"
        "  the record is not what was written\n"
        f"  hint: Remove it; results do not depend on it: rm {path}"
    )
