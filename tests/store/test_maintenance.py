"""Pins, statistics, and the reading of a whole store."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from blake3 import blake3

from orun.errors import StoreError, UsageError
from orun.store import Store, checksummed_json
from orun.store.pins import Pin, list_pins, pin, unpin
from orun.store.stats import Usage, measure_usage
from orun.store.verify import Verified, verify
from tests.store.support import action, add, bytes_read, edit_and_restore_time, flip, needs_proc, object_path


def test_pins_come_back(store: Store) -> None:
    tree = add(store, {"model.onnx": b"1"})
    assert list_pins(store) == ()
    first, second = pin(store, "v1/rc", tree), pin(store, "v0", tree)
    assert list_pins(store) == (second, first)
    assert first == Pin("v1/rc", tree, first.at)
    other = add(store, {"model.onnx": b"2"})
    moved = pin(store, "v0", other)
    assert list_pins(store) == (moved, first)
    unpin(store, "v1/rc")
    assert list_pins(store) == (moved,)
    with pytest.raises(UsageError) as caught:
        unpin(store, "v1")
    assert str(caught.value) == "there is no pin 'v1'\n  pins: v0\n  hint: orun store pins"


def test_a_pin_whose_name_differs_in_case_alone_is_refused_where_no_case_counts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = add(store, {"a": b"1"})
    pin(store, "Best", tree)
    monkeypatch.setitem(store.__dict__, "ignores_case", True)
    (store.root / "pins" / "best.json").symlink_to("Best.json")  # as such a file system shows it
    with pytest.raises(UsageError) as caught:
        pin(store, "best", tree)
    assert str(caught.value) == (
        "there is a pin 'Best' already\n"
        f"  the file system of {store.root} ignores case in names\n"
        "  hint: Choose another name: orun store pin NAME ARTIFACT"
    )


def test_only_what_is_whole_is_pinned(store: Store) -> None:
    tree = add(store, {"model.onnx": b"1"})
    object_path(store, blake3(b"1").hexdigest()).unlink()
    with pytest.raises(StoreError) as caught:
        pin(store, "v1", tree)
    assert str(caught.value) == (
        f"cannot pin {tree} as 'v1'\n"
        "  model.onnx is missing from the store\n"
        "  hint: Run the pipeline again, which repairs it, and pin the new artifact: orun FILE"
    )
    assert list_pins(store) == ()


def test_an_index_that_cannot_be_opened_is_no_damage(store: Store) -> None:
    """As on a file system that is read-only."""
    store.put_action(action(tree=add(store, {"model.onnx": b"1"})))
    store.close()
    for path in (store.root / "index").iterdir():
        path.unlink()
    (store.root / "index" / "signatures.sqlite").mkdir()
    other = Store.open(store.root)
    assert verify(other).problems == ()
    assert other.parts.index.problem != ""


@needs_proc
def test_a_whole_store_is_read(store: Store) -> None:
    data = b"weights " * 100_000
    digest = add(store, {"model.onnx": data})
    store.put_action(action(tree=digest))
    before = bytes_read()
    manifest = object_path(store, digest).stat().st_size
    assert verify(store) == Verified(2, len(data) + manifest, 1, ())
    assert bytes_read() - before > len(data)
    before = bytes_read()
    assert store.check(digest) == ()
    assert bytes_read() - before < 100_000


def test_everything_that_is_damaged_is_named(store: Store, tmp_path: Path) -> None:
    digest = add(store, {"model.onnx": b"weights", "labels.txt": b"labels", "other.txt": b"other"})
    store.put_action(action(tree=digest))
    store.put_action(action("b" * 64, tree=digest))
    damaged, missing = blake3(b"weights").hexdigest(), blake3(b"labels").hexdigest()
    edit_and_restore_time(object_path(store, damaged))
    object_path(store, missing).unlink()
    flip(next((store.root / "actions").glob("bb/*/*.json")))
    folder = store.create_run("bert")
    (folder / "record.json").write_bytes(b"{}")
    (store.root / "objects" / "ab").mkdir(exist_ok=True)
    (store.root / "objects" / "ab" / "stray file").touch()
    with Store.open(tmp_path / "store") as other:
        problems = verify(other)
    kept = sorted((store.root / "quarantine").iterdir())
    assert (problems.objects, problems.records) == (3, 1)
    assert problems.problems == (
        f"object {damaged} was damaged; moved to quarantine as {kept[0]}",
        f"a record of key {'b' * 64} was damaged; moved to quarantine as {kept[1]}",
        "the artifact of bert/int8: labels.txt is missing from the store",
        "the artifact of bert/int8: model.onnx is missing from the store",
        f"the record {folder / 'record.json'} was damaged",
    )


def test_each_file_counts_once(store: Store) -> None:
    digest = add(store, {"model.onnx": b"x" * 100_000})
    store.put_action(action(tree=digest))
    out, _ = store.check_out(digest, "bert", "int8")
    store.close()
    statistics = measure_usage(store)
    assert statistics["objects"].files == 2
    assert statistics["objects"].size >= 100_000
    assert statistics["actions"].files == statistics["out"].files == 1
    if (out / "model.onnx").stat().st_nlink > 1:
        assert statistics["out"] == Usage(1, 0)
    assert statistics["quarantine"] == statistics["tmp"] == statistics["pins"] == Usage(0, 0)


def test_a_file_that_a_run_removes_meanwhile_does_not_count(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    add(store, {"model.onnx": b"model"})
    (store.root / "objects" / "removed").touch()
    lstat = os.lstat

    def remove_first(path: str) -> os.stat_result:
        if path.endswith("/removed"):
            Path(path).unlink()
        return lstat(path)

    monkeypatch.setattr(os, "lstat", remove_first)
    assert measure_usage(store)["objects"].files == 2


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE])
def test_what_the_system_refuses_is_not_damaged_but_by_the_disk(
    store: Store, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    record = store.create_run("bert") / "record.json"
    record.write_text("{}")

    def fail(_path: Path, _limit: int) -> bytes:
        raise OSError(code, os.strerror(code), str(record))

    monkeypatch.setattr(checksummed_json, "read_bounded", fail)
    if code == errno.EIO:
        assert verify(store).problems == (f"cannot read {record}: the disk reports an error",)
        return
    with pytest.raises(StoreError) as caught:
        verify(store)
    assert caught.value.problem == f"cannot read {record}: the server has another file there by now"
