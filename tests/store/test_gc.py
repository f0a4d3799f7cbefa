"""Collections: what named roots reach stays, the rest goes, and no running process loses what it relies on."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

import pytest
from blake3 import blake3

from orun.errors import StoreError
from orun.store import Store, gc
from orun.store.gc import Collected, Keep, Removed, collect
from orun.store.gc_candidates import GcCandidates
from orun.store.inventory import Inventory, read_inventory
from orun.store.pins import pin, unpin
from orun.store.verify import verify
from tests.store.support import action, add, add_bytes, content, fill, flip, object_path
from tests.store.workload import write_run

TOP = Path(__file__).parents[2]
NOTHING = Keep(runs=0)


def build(store: Store, stage: str, data: bytes, *, at: float = 100.0, pipeline: str = "bert") -> str:
    """Store an artifact as a runner does; the digest of its tree."""
    digest = add(store, {"model.onnx": data, "shared.txt": b"the same in all"})
    log = add_bytes(store, b"log of " + data)
    key = blake3(data).hexdigest()
    record = action(key, tree=digest, log=log, stage=stage, pipeline=pipeline, started_at=at, size=len(data) + 15)
    store.put_action(record)
    store.check_out(digest, pipeline, stage)
    store.set_latest(pipeline, stage, record)
    return digest


def finish(store: Store, trees: dict[str, str], pipeline: str = "bert") -> None:
    write_run(store.create_run(pipeline), pipeline, trees)


def stored(store: Store) -> set[str]:
    """The trees that can still be used."""
    records = [path.parent.name for path in (store.root / "actions").glob("*/*/*.json")]
    return {record.tree for key in records for record in store.list_actions(key) if not store.check(record.tree)}


def objects(store: Store) -> set[str]:
    return {path.parent.name + path.name for path in (store.root / "objects").glob("*/*")}


@pytest.fixture
def closed(store: Store) -> Store:
    """The store, between runs."""
    store.close()
    return store


def test_the_last_runs_of_each_pipeline_are_kept(store: Store) -> None:
    trees = [build(store, "int8", b"model %d" % number, at=number) for number in range(4)]
    other = build(store, "int8", b"of another pipeline", pipeline="resnet")
    finish(store, {"int8": other}, "resnet")
    for tree in trees:
        finish(store, {"int8": tree})
    store.close()
    collected = collect(store, Keep(runs=2))
    assert stored(store) == {trees[2], trees[3], other}
    assert [
        (removed_tree.tree, removed_tree.pipeline, removed_tree.stage, removed_tree.size)
        for removed_tree in collected.removed
    ] == [
        (trees[0], "bert", "int8", 22),
        (trees[1], "bert", "int8", 22),
    ]
    assert (collected.objects, collected.kept_objects) == (6, 3 * 3 + 1)
    assert collected.kept_objects == len(objects(store))
    assert collected.kept_size == sum(object_path(store, digest).stat().st_size for digest in objects(store))
    assert verify(store).problems == ()


def test_everything_may_go(closed: Store) -> None:
    tree = build(closed, "int8", b"model")
    finish(closed, {"int8": tree})
    add_bytes(closed, b"of a run that died")
    closed.close()
    assert len(objects(closed)) == 5
    assert collect(closed, NOTHING).objects == 5
    assert objects(closed) == set()
    assert stored(closed) == set()
    assert closed.find_latest("bert", "int8") is None
    assert not (closed.root / "out" / "bert" / "int8").exists()
    assert list((closed.root / "actions").glob("*/*")) == []
    assert sorted(path.name for path in (closed.root / "tmp").iterdir()) == []
    assert closed.drain_notices() == []
    with contextlib.closing(sqlite3.connect(closed.root / "index" / "signatures.sqlite")) as index:
        assert index.execute("SELECT * FROM seen").fetchall() == []
    assert collect(closed, NOTHING) == Collected((), 0, 0, 0, 0)


def test_a_dry_run_says_the_same_and_does_nothing(closed: Store) -> None:
    tree = build(closed, "int8", b"model", at=7.0)
    closed.close()
    before = {path: path.stat().st_mtime_ns for path in closed.root.rglob("*") if path.is_file()}
    planned = collect(closed, NOTHING, dry_run=True)
    assert planned.removed == (Removed(tree, "bert", "int8", 20, 7.0),)
    assert {path: path.stat().st_mtime_ns for path in closed.root.rglob("*") if path.is_file()} == before
    assert collect(closed, NOTHING) == planned


def test_named_artifacts_are_kept(closed: Store) -> None:
    released, accepted, lost = (build(closed, name, name.encode()) for name in ("released", "accepted", "lost"))
    pin(closed, "v1.0", released)
    closed.close()
    collect(closed, Keep(runs=0, trees={accepted}))
    assert stored(closed) == {released, accepted}
    assert closed.check(lost) != ()
    unpin(closed, "v1.0")
    closed.close()
    collect(closed, Keep(runs=0, trees={accepted}))
    assert stored(closed) == {accepted}


def test_then_the_most_recently_used_are_kept_to_a_size(closed: Store) -> None:
    sizes = {}
    trees = [build(closed, f"s{number}", b"%d" % number * 1000, at=number) for number in range(4)]
    finish(closed, {"s0": trees[0]})  # made first, used last
    pin(closed, "root", trees[1])
    closed.close()
    for count in range(4):
        everything = collect(closed, Keep(runs=0, size=10**9), dry_run=True)
        assert everything.removed == ()
        sizes[count] = everything.kept_size
        assert collect(closed, Keep(runs=0, size=everything.kept_size), dry_run=True).removed == ()
        removed = collect(closed, Keep(runs=0, size=everything.kept_size - 1)).removed
        assert [removed_tree.tree for removed_tree in removed] == [[trees[2]], [trees[3]], [trees[0]], []][count]
    assert stored(closed) == {trees[1]}


def test_then_those_used_lately_are_kept(closed: Store) -> None:
    now = time.time()
    old, new = build(closed, "old", b"old", at=now - 1000), build(closed, "new", b"new", at=now)
    closed.close()
    collect(closed, Keep(runs=0, age=500))
    assert stored(closed) == {new}
    assert closed.check(old) != ()


def test_what_a_live_process_relies_on_is_kept(store: Store) -> None:
    mine, in_use = build(store, "mine", b"mine"), build(store, "others", b"others")
    store.close()
    with Store.open(store.root) as runner:
        runner.create_run("bert")
        assert runner.check(mine) == ()
        collected = collect(store, NOTHING)
        assert [removed_tree.tree for removed_tree in collected.removed] == [in_use]
        assert stored(store) == {mine}
        assert runner.check_out(mine, "bert", "mine")[1] is False
        new = build(runner, "new", b"new")
        collect(store, NOTHING)
        assert stored(store) == {mine, new}
    collect(store, NOTHING)
    assert objects(store) == set()


def test_what_a_process_comes_to_rely_on_before_it_is_listed_stays(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, write = build(store, "int8", b"model"), GcCandidates.write
    store.close()
    with Store.open(store.root) as runner:
        runner.create_run("bert")

        def lease_then_write(candidates: GcCandidates, digests: Collection[str]) -> None:
            assert runner.check(tree) == ()
            write(candidates, digests)

        monkeypatch.setattr(GcCandidates, "write", lease_then_write)
        assert collect(store, NOTHING).removed == ()
        assert stored(store) == {tree}


def test_what_a_dead_process_relied_on_is_not(store: Store) -> None:
    tree = build(store, "int8", b"model")
    store.close()
    code = (
        "import os, sys; from pathlib import Path; from orun.store import Store; s = Store.open(Path(sys.argv[1])); "
        "s.create_run('bert'); s.check(sys.argv[2]); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(store.root), tree], cwd=TOP, check=False)
    assert len(collect(store, NOTHING).removed) == 1


def test_a_changed_checkout_stays(closed: Store) -> None:
    build(closed, "int8", b"model")
    notes = fill(closed.root / "out" / "bert" / "int8", {"notes.txt": b"mine"})
    closed.close()
    collect(closed, NOTHING)
    assert content(notes) == {"model.onnx": b"model", "shared.txt": b"the same in all", "notes.txt": b"mine"}
    assert closed.find_latest("bert", "int8") is None


def test_a_result_that_is_stored_after_the_inventory_was_read_stays(
    closed: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(closed, "old", b"old")
    closed.close()
    with Store.open(closed.root) as runner:
        runner.create_run("bert")

        def read_then_build(store: Store) -> Inventory:
            inventory = read_inventory(store)
            build(runner, "new", b"new")
            return inventory

        monkeypatch.setattr(gc, "read_inventory", read_then_build)
        collected = collect(closed, NOTHING)
        assert [removed.stage for removed in collected.removed] == ["old"]
        assert closed.find_latest("bert", "old") is None
        (record,) = closed.list_actions(blake3(b"new").hexdigest())
        assert closed.find_latest("bert", "new") == record


@pytest.mark.parametrize("data", [b"old", b"new"])
def test_what_a_process_recorded_and_ended_after_the_inventory_was_read_stays(
    closed: Store, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    """It was used anew, so the age keeps it; without its lease, objects went that its record names."""
    build(closed, "old", b"old")
    closed.close()
    begun: list[Store] = []

    def read_then_build(store: Store) -> Inventory:
        inventory = read_inventory(store)
        if not begun:
            begun.append(Store.open(store.root))
            with begun[0] as runner:
                runner.create_run("bert")
                build(runner, "int8", data, at=time.time())
        return inventory

    monkeypatch.setattr(gc, "read_inventory", read_then_build)
    gone = collect(closed, Keep(age=500)).removed
    assert [removed.stage for removed in gone] == ([] if data == b"old" else ["old"])
    assert verify(closed).problems == ()
    (record,) = closed.list_actions(blake3(data).hexdigest())
    assert closed.check(record.tree) == ()
    assert closed.find_latest("bert", "int8") == record


def test_a_record_that_was_written_anew_meanwhile_stays(closed: Store) -> None:
    build(closed, "int8", b"model")
    ((path, signature, record),) = closed.parts.actions.iter_all()
    closed.put_action(record)
    closed.parts.actions.remove(path, signature)
    assert closed.list_actions(record.key) == (record,)


def test_a_pointer_to_a_record_that_is_gone_goes(closed: Store) -> None:
    build(closed, "int8", b"model")
    ((path, _, _),) = closed.parts.actions.iter_all()
    Path(path).unlink()
    closed.close()
    collect(closed, NOTHING)
    assert content(closed.root / "latest") == {}


def test_what_was_put_away_long_ago_goes(closed: Store) -> None:
    old, young = (closed.root / "quarantine" / f"{time.time_ns() - age}-x" for age in (8 * 86400 * 10**9, 0))
    for path in (old, young):
        fill(path, {"file": b"1"})
    (closed.root / "quarantine" / "1-file").touch()
    (closed.root / "quarantine" / "notes").touch()
    collect(closed, NOTHING)
    assert sorted((closed.root / "quarantine").iterdir()) == sorted([young, closed.root / "quarantine" / "notes"])


def test_the_note_of_a_run_of_long_ago_goes(closed: Store) -> None:
    old, young = (closed.root / "index" / f"run-{name}.json" for name in ("old", "young"))
    for path, age in ((old, 8 * 86400), (young, 0)):
        path.touch()
        os.utime(path, times=(time.time() - age,) * 2)
    collect(closed, NOTHING, dry_run=True)
    assert old.exists()
    collect(closed, NOTHING)
    assert not old.exists()
    assert young.exists()


def test_a_damaged_run_is_said_and_does_not_count(closed: Store) -> None:
    tree = build(closed, "int8", b"model")
    finish(closed, {"int8": tree})
    record = closed.list_runs()[0] / "record.json"
    flip(record)
    closed.close()
    collect(closed, Keep(runs=5))
    run_name = closed.list_runs()[0].name
    assert closed.drain_notices() == [
        f"run {run_name} does not count as one of the last: the record {record} was damaged"
    ]
    assert stored(closed) == set()


def test_with_a_damaged_pin_nothing_is_removed(closed: Store) -> None:
    tree = build(closed, "int8", b"model")
    pin(closed, "v1.0", tree)
    flip(closed.root / "pins" / "v1.0.json")
    closed.close()
    with pytest.raises(StoreError, match=r"^the record .*v1\.0\.json was damaged"):
        collect(closed, NOTHING)
    assert stored(closed) == {tree}
