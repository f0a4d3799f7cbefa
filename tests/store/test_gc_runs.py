"""Collections of the folders of runs: the last ones stay, those that something names, and those in use."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from orun.errors import StoreError, UsageError
from orun.fs.bounded_reads import read_bounded
from orun.fs.locks import Lock
from orun.runner.retention import list_releases
from orun.stages.release._manifest import MANIFEST
from orun.store import Store, checksummed_json
from orun.store.gc import Keep, RemovedRun, collect
from orun.store.gc_candidates import GcCandidates
from orun.store.inventory import read_inventory
from orun.store.pins import pin, unpin
from tests.store.support import add, flip, in_an_image
from tests.store.workload import write_run

TOP = Path(__file__).parents[2]
DAY = 86400.0


def finished(store: Store, days: float, trees: tuple[str, ...] = (), pipeline: str = "bert", **more: object) -> str:
    """A run that ended so many days ago, whose stages built these trees; its id."""
    began = time.time() - days * DAY
    folder = store.create_run(pipeline)
    stages = [{"stage": tree, "tree": tree, "outcome": "built"} for tree in trees]
    write_run(folder, pipeline, {}, stages=stages, started_at=began, **more)
    os.utime(folder, (began, began))
    return folder.name


def unfinished(store: Store, days: float) -> str:
    """A run that ended so many days ago without a record."""
    folder = store.create_run("bert")
    (folder / "events.jsonl").write_text("{}\n")
    os.utime(folder, (time.time() - days * DAY,) * 2)
    return folder.name


def left(store: Store) -> list[str]:
    return [folder.name for folder in store.list_runs()]


def test_the_last_runs_of_each_pipeline_stay(store: Store) -> None:
    other = finished(store, 90, pipeline="resnet")
    runs = [finished(store, days) for days in (40, 30, 20, 10)]
    store.close()
    sizes = [(store.root / "runs" / run / "record.json").stat().st_size for run in runs]
    planned = collect(store, Keep(runs=2), dry_run=True)
    assert planned.runs == (RemovedRun(runs[0], sizes[0]), RemovedRun(runs[1], sizes[1]))
    assert left(store) == [other, *runs]
    assert collect(store, Keep(runs=2)) == planned
    assert left(store) == [other, *runs[2:]]
    assert collect(store, Keep(runs=2)).runs == ()
    assert list((store.root / "tmp").iterdir()) == []


def test_the_folder_of_a_run_in_an_image_goes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(store, 90)
    last = finished(store, 80)
    store.close()
    in_an_image(monkeypatch, store.root)
    collect(store, Keep(runs=1))
    assert left(store) == [last]


def test_the_last_run_stays_where_the_clock_was_set_back(store: Store) -> None:
    before, last = finished(store, 10), finished(store, 20)  # so does its record say
    store.close()
    collect(store, Keep(runs=1))
    assert left(store) == [last]
    assert before < last


def test_further_runs_stay_by_age(store: Store) -> None:
    runs = [finished(store, days) for days in (40, 30, 20, 10)]
    store.close()
    collect(store, Keep(runs=1, age=25 * DAY))
    assert left(store) == runs[2:]
    collect(store, Keep(runs=0, size=10**9))
    assert left(store) == []


def test_a_run_that_ended_just_now_stays(store: Store) -> None:
    """Its reports, and what is found out about its gates, may still be written."""
    old, young = finished(store, 2 / 24), finished(store, 0.5 / 24)
    store.close()
    assert [run.run for run in collect(store, Keep(runs=0)).runs] == [old]
    assert left(store) == [young]


def test_a_run_that_never_ended_stays_for_a_week(store: Store) -> None:
    dead, young = unfinished(store, 8), unfinished(store, 6)
    damaged = finished(store, 6)
    flip(store.root / "runs" / damaged / "record.json")
    store.close()
    assert [run.run for run in collect(store, Keep(runs=0)).runs] == [dead]
    assert left(store) == [young, damaged]


def test_the_run_that_made_what_is_pinned_or_named_stays(store: Store) -> None:
    pinned, named, lost = (add(store, {"model.onnx": name}) for name in (b"pinned", b"named", b"lost"))
    first = finished(store, 50, (pinned,))
    runs = [finished(store, 40, (tree,)) for tree in (pinned, named, lost)]
    pin(store, "v1.0", pinned)
    store.close()
    collect(store, Keep(runs=0, trees={named}))
    assert first not in left(store), "it was made again later"
    assert left(store) == runs[:2]
    unpin(store, "v1.0")
    store.close()
    collect(store, Keep(runs=0, trees={named}))
    assert left(store) == [runs[1]]


def test_a_run_that_is_named_and_the_one_that_it_repeats_stay(store: Store) -> None:
    original, other = finished(store, 50), finished(store, 45)
    accepted = finished(store, 40, repeats=original)
    store.close()
    collect(store, Keep(runs=0, named_runs={accepted}))
    assert left(store) == [original, accepted]
    assert other not in left(store)


def test_the_run_of_a_live_process_stays_however_long_it_takes(store: Store) -> None:
    with Store.open(store.root) as runner:
        live = unfinished(runner, 100)
        assert collect(store, Keep(runs=0)).runs == ()
        assert left(store) == [live]
    assert [run.run for run in collect(store, Keep(runs=0)).runs] == [live]


def test_a_run_that_a_live_process_reads_stays(store: Store) -> None:
    held, other = finished(store, 50), finished(store, 40)
    store.close()
    with Store.open(store.root) as reader:
        assert reader.run(held, hold=True).name == held
        assert [run.run for run in collect(store, Keep(runs=0)).runs] == [other]
        assert left(store) == [held]
    collect(store, Keep(runs=0))
    assert left(store) == []


READER = """
import sys
from pathlib import Path
from orun.errors import UsageError
from orun.store import Store
with Store.open(Path(sys.argv[1])) as store:
    store.parts.session.begin()
    print("asking", flush=True)
    try:
        print(store.run(sys.argv[2], hold=True))
    except UsageError as error:
        print(error.problem)
"""


def test_who_wants_a_run_that_is_condemned_waits_and_is_told(store: Store) -> None:
    run = finished(store, 50)
    store.close()
    with Lock(store.root / "locks" / "gc") as lock:
        lock.acquire()
        (store.root / "tmp" / "condemned").write_text(f"{run}\n")
        reader = subprocess.Popen(
            [sys.executable, "-c", READER, str(store.root), run], cwd=TOP, stdout=subprocess.PIPE, text=True
        )
        assert reader.stdout is not None
        assert reader.stdout.readline() == "asking\n"
        (lease,) = (store.root / "tmp").glob("*/lease")
        until = time.monotonic() + 60
        while run not in lease.read_text() and time.monotonic() < until:
            time.sleep(0.01)
        store.discard(store.root / "runs" / run)
        (store.root / "tmp" / "condemned").unlink()
    assert reader.communicate(timeout=60)[0] == f"there is no run {run!r}\n"


def test_the_list_of_a_collection_names_the_runs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = finished(store, 50)
    store.close()
    lists: list[str] = []
    write = GcCandidates.write

    def look(self: GcCandidates, digests: Collection[str]) -> None:
        write(self, digests)
        lists.append((store.root / "tmp" / "condemned").read_text())

    monkeypatch.setattr(GcCandidates, "write", look)
    collect(store, Keep(runs=0))
    assert lists == [f"{run}\n"]


def test_a_run_that_is_not_there(store: Store) -> None:
    with pytest.raises(UsageError, match=r"^there is no run 'x'"):
        store.run("x", hold=True)


def test_of_a_record_that_cannot_be_read_it_is_not_known_what_it_keeps(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that failed for a moment had it taken for a damaged one: what the last run had made was removed."""
    tree = add(store, {"model.onnx": b"a model"})
    record = store.root / "runs" / finished(store, 1, (tree,)) / "record.json"
    store.close()

    def fail(path: Path, limit: int) -> bytes:
        if path == record:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return read_bounded(path, limit)

    monkeypatch.setattr(checksummed_json, "read_bounded", fail)
    with pytest.raises(StoreError) as caught:
        collect(store, Keep(runs=1))
    assert caught.value.problem == f"cannot read {record}: the disk reports an error"
    assert store.check(tree) == ()
    monkeypatch.undo()
    assert collect(store, Keep(runs=1)).objects == 0


def test_of_a_bundle_that_cannot_be_read_it_is_not_known_whether_it_is_a_release(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = add(store, {MANIFEST: b"{}"})
    finished(store, 1, (tree,))
    inventory = read_inventory(store)

    def fail(_: str) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(store.parts.objects, "read", fail)
    with pytest.raises(StoreError) as caught:
        list_releases(inventory)
    assert caught.value.problem == "cannot read from the store: the disk reports an error"
