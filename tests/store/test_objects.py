"""Objects: stored once, read-only, and never returned when they are not what their name says."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from blake3 import blake3

from orun.errors import StoreError
from orun.fs.digests import digest_descriptor
from orun.fs.durable import replace_file
from orun.fs.signatures import set_stamp, to_signature
from orun.store import Store, materialize, objects
from orun.store.objects import SMALL
from tests.store.support import (
    DAMAGE,
    NOBODY,
    add,
    add_bytes,
    bytes_read,
    fill,
    forks,
    needs_proc,
    needs_root,
    object_path,
)

BIG = os.urandom(1 << 20) * 5 + b"end"


@pytest.mark.parametrize("data", [b"", b"model", BIG])
def test_bytes_come_back_by_their_blake3_digest(store: Store, data: bytes) -> None:
    digest = add_bytes(store, data)
    assert digest == blake3(data).hexdigest()
    assert store.read(digest) == data
    assert stat.filemode(object_path(store, digest).stat().st_mode) == "-r--r--r--"


@pytest.mark.parametrize("data", [b"", b"model", BIG])
def test_a_file_is_copied(store: Store, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(data)
    before = path.stat()
    assert store.add_file(path) == blake3(data).hexdigest()
    assert store.read(blake3(data).hexdigest()) == data
    after = path.stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_nlink) == (before.st_mode, before.st_mtime_ns, 1)


def test_the_same_content_is_stored_once(store: Store) -> None:
    digest = add_bytes(store, b"model")
    inode = object_path(store, digest).stat().st_ino
    add(store, {"a": b"model", "b": b"model"})
    assert object_path(store, digest).stat().st_ino == inode
    assert len(list((store.root / "objects").rglob("*/*"))) == 2  # the content, and the list of files


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_object_is_put_away_and_said(store: Store, damage: Callable[[Path], None]) -> None:
    digest = add_bytes(store, b"the content of a log")
    damage(object_path(store, digest))
    with pytest.raises(StoreError) as caught:
        store.read(digest)
    path = object_path(store, digest)
    assert str(caught.value) == (
        f"object {digest} is not in the store\n"
        f"  {path} is missing or was damaged\n"
        "  hint: Run the pipeline again: the stage that made it will be built again"
    )
    (kept,) = (store.root / "quarantine").iterdir()
    assert store.drain_notices() == [f"object {digest} was damaged; moved to quarantine as {kept}"]
    assert store.drain_notices() == []
    assert not path.exists()
    assert add_bytes(store, b"the content of a log") == digest
    assert store.read(digest) == b"the content of a log"


def test_a_missing_object_is_an_error(store: Store) -> None:
    with pytest.raises(StoreError, match=f"^object {'0' * 64} is not in the store"):
        store.read("0" * 64)
    assert store.drain_notices() == []


@pytest.mark.parametrize("damage", DAMAGE)
def test_adding_again_replaces_a_damaged_object(store: Store, damage: Callable[[Path], None]) -> None:
    digest = add(store, {"model.onnx": b"weights of a model"})
    damage(object_path(store, blake3(b"weights of a model").hexdigest()))
    assert add(store, {"model.onnx": b"weights of a model"}) == digest
    assert store.check(digest) == ()
    assert store.read(blake3(b"weights of a model").hexdigest()) == b"weights of a model"


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_noticed_at_once_and_by_another_process(
    store: Store, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    digest = add(store, {"model.onnx": b"weights of a model"})
    assert store.check(digest) == ()
    damage(object_path(store, blake3(b"weights of a model").hexdigest()))
    with Store.open(tmp_path / "store") as other:
        assert other.check(digest) == ("model.onnx was damaged in the store",)
        assert len(other.drain_notices()) == 1
    assert store.check(digest) == ("model.onnx is missing from the store",)


def test_an_object_under_another_name_is_damaged(store: Store) -> None:
    first, two = blake3(b"one").hexdigest(), blake3(b"two").hexdigest()
    digest = add(store, {"a": b"one", "b": b"two"})
    object_path(store, first).rename(object_path(store, two))
    assert store.check(digest) == ("a is missing from the store", "b was damaged in the store")


def test_a_folder_or_a_link_in_place_of_an_object_is_damage(store: Store, tmp_path: Path) -> None:
    path, two = object_path(store, blake3(b"one").hexdigest()), object_path(store, blake3(b"two").hexdigest())
    digest = add(store, {"a": b"one", "b": b"two"})
    path.unlink()
    path.mkdir()
    two.rename(tmp_path / "elsewhere")
    two.symlink_to(tmp_path / "elsewhere")
    assert store.check(digest) == ("a was damaged in the store", "b was damaged in the store")
    assert (tmp_path / "elsewhere").read_bytes() == b"two"


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o000, 0o777])
def test_a_changed_mode_is_put_right(store: Store, mode: int) -> None:
    digest = add(store, {"a": b"one"})
    path = object_path(store, blake3(b"one").hexdigest())
    path.chmod(mode)
    assert store.check(digest) == ()
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert store.drain_notices() == []


def test_an_object_that_the_disk_does_not_give_is_damaged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = add(store, {"a": b"one"})
    os.utime(object_path(store, blake3(b"one").hexdigest()))

    def fail(_path: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(objects, "read_steadily", fail)
    assert store.check(digest) == ("a was damaged in the store",)


@needs_proc
def test_what_nobody_touched_is_not_read_again(store: Store, tmp_path: Path) -> None:
    digest = add(store, {"model.onnx": BIG, "weights.data": BIG + b"."})
    before = bytes_read()
    assert store.check(digest) == ()
    with Store.open(tmp_path / "store") as other:
        assert other.check(digest) == ()
    assert bytes_read() - before < 100_000


@needs_proc
def test_what_was_touched_is_read_once(store: Store) -> None:
    digest = add(store, {"model.onnx": BIG})
    os.utime(object_path(store, blake3(BIG).hexdigest()))
    before = bytes_read()
    assert store.check(digest) == ()
    once = bytes_read() - before
    assert store.check(digest) == ()
    assert len(BIG) <= once < len(BIG) + 100_000
    assert bytes_read() - before < len(BIG) + 100_000


@needs_proc
def test_a_coarse_time_is_not_trusted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a file system keeps whole seconds, a later write may leave the stamp as it is."""

    def coarse(path: str, stamp: int | None = None) -> int:
        nanoseconds = (
            stamp or (time.time_ns() // 10**9 + 3600) * 10**9
        )  # in an hour: it does not settle while this runs
        os.utime(path, ns=(nanoseconds, nanoseconds))
        return nanoseconds

    monkeypatch.setattr(objects, "set_stamp", coarse)
    monkeypatch.setattr(materialize, "set_stamp", coarse)
    digest = add(store, {"weights": bytes(1 << 20)})
    for _ in range(3):
        before = bytes_read()
        assert store.check(digest) == ()
        assert bytes_read() - before > 1 << 20
    store.check_out(digest, "bert", "int8")
    for _ in range(2):
        before = bytes_read()
        assert store.check_out(digest, "bert", "int8")[1] is False
        assert bytes_read() - before > 1 << 20


@pytest.mark.parametrize(
    ("unit", "settled"), [(100, True), (10**7, False), (10**9, False), (2 * 10**9, False)],
    ids=["NTFS", "exFAT", "ext3", "FAT"],
)  # fmt: skip
def test_file_systems_that_cut_times(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: int, settled: bool
) -> None:
    """Their stamps are taken as they are kept, and trusted at once where no write can leave the same."""
    utime, now = os.utime, time.time_ns() // 1000 * 1000  # as one moment in ten is, where 100 ns are kept
    monkeypatch.setattr(time, "time_ns", lambda: now)  # nothing settles while this runs

    def cut(path: str, ns: tuple[int, int]) -> None:
        utime(path, ns=(ns[0] - ns[0] % unit, ns[1] - ns[1] % unit))

    monkeypatch.setattr(os, "utime", cut)
    tree = store.add_tree(fill(tmp_path / "output", {"model.onnx": bytes(SMALL + 1), "labels.txt": b"cat"}))
    objects = [object_path(store, digest).stat() for digest in tree.objects]
    known = [store.parts.index.get(to_signature(status)) for status in objects]
    assert known == ([*tree.objects] if settled else [None, None, None])
    assert store.check(tree.digest) == ()


def test_a_write_that_follows_the_stamp_at_once_is_no_stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, utime, stamps = tmp_path / "model", os.utime, list[int]()
    path.write_bytes(b"model")

    def written(name: str, ns: tuple[int, int]) -> None:
        stamps.append(ns[1])
        utime(name, ns=(ns[0], ns[1] - 1_234_567))  # the time of the last tick, as a write leaves it

    monkeypatch.setattr(os, "utime", written)
    assert [set_stamp(str(path))] == stamps
    assert path.stat().st_mtime_ns == stamps[0] - 1_234_567


@needs_root
def test_a_file_of_somebody_else_is_copied(store: Store, tmp_path: Path) -> None:
    folder = fill(tmp_path / "output", {"model.onnx": bytes(SMALL + 1)})
    os.chown(folder / "model.onnx", NOBODY, NOBODY)
    tree = store.add_tree(folder)
    assert object_path(store, tree.entries[0].digest).stat().st_uid == os.geteuid()
    assert (folder / "model.onnx").stat().st_uid == NOBODY


@forks
@pytest.mark.parametrize("together", [True, False])
def test_an_object_that_a_dead_process_has_not_flushed_is_flushed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    """What is stored with it would be lost with it in a power cut, although it was said to be stored."""
    files = {"model.onnx": bytes(SMALL + 1), "labels.txt": b"cat"}

    def die() -> None:
        with store.flush_together():
            store.add_tree(fill(tmp_path / "first", files))
            os._exit(0)

    if os.fork() == 0:
        die()
    os.wait()
    flushed, fsync = set(), os.fsync

    def flush(descriptor: int) -> None:
        flushed.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", flush)
    with store.flush_together() if together else nullcontext():
        tree = store.add_tree(fill(tmp_path / "second", files))
    assert flushed >= {object_path(store, digest).stat().st_ino for digest in tree.objects}


def test_nothing_is_known_of_an_object_before_the_disk_has_it(store: Store) -> None:
    """A power cut would leave a file of its size and times, and an index that says what is no longer in it."""
    with store.flush_together():
        digest = add_bytes(store, b"model")
        store.flush()
        seen = to_signature(object_path(store, digest).stat())
        with Store.open(store.root) as other:
            assert other.parts.index.get(seen) is None
    with Store.open(store.root) as other:
        assert other.parts.index.get(seen) == digest


@pytest.mark.parametrize("refused", ["big.bin", "labels.txt"])
def test_what_the_disk_does_not_take_is_no_object(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """A later fsync would say that all is well, and the kernel show what the disk does not have, under that state."""
    files = {"big.bin": bytes(SMALL + 1), "labels.txt": b"cat"}
    folder = fill(tmp_path / "output", files)
    inode, fsync = (folder / refused).stat().st_ino, os.fsync

    def refuse(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == inode:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StoreError) as caught, store.flush_together():
        tree = store.add_tree(folder)
    assert caught.value.problem == "cannot write to the disk: the disk reports an error"
    gone = blake3(files.pop(refused)).hexdigest()
    assert not object_path(store, gone).exists()
    for digest in {*tree.objects} - {gone}:
        seen = to_signature(object_path(store, digest).stat())
        assert store.parts.index.get(seen) is None  # of what was to be flushed after it nothing is known
    assert store.check(tree.digest) == (f"{refused} is missing from the store",)


def test_a_file_that_comes_in_pieces_is_hashed_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems give less at a time than there is: half of a file was taken for all of it."""
    path, read = tmp_path / "file", os.read
    path.write_bytes(b"half and half")
    monkeypatch.setattr(os, "read", lambda descriptor, size: read(descriptor, min(size, 4)))
    with path.open("rb") as file, (tmp_path / "copy").open("wb") as copy:
        assert digest_descriptor(file.fileno(), copy.fileno()) == blake3(b"half and half").hexdigest()
    assert (tmp_path / "copy").read_bytes() == b"half and half"


@needs_proc
def test_that_there_is_no_memory_to_read_a_file_into_is_said_as_of_any(tmp_path: Path) -> None:
    """A limit of the process, in one of its own: the pages that files are read into are asked for otherwise."""
    path = tmp_path / "file"
    path.write_bytes(bytes(3 << 20))
    text = f"""
import mmap, resource
from orun.fs.digests import digest_descriptor
file, held = open({str(path)!r}, "rb"), int(open("/proc/self/statm").read().split()[0]) * mmap.PAGESIZE
resource.setrlimit(resource.RLIMIT_AS, (held + (5 << 18), held + (5 << 18)))  # for the first piece, and not the second
try:
    digest_descriptor(file.fileno())
except MemoryError:
    print("none")
"""
    process = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60)
    assert process.stdout == "none\n"


def test_a_file_that_is_refused_when_it_is_closed_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a network file system may refuse it then, which had taken all that was written."""
    close = os.close

    def fail(descriptor: int) -> None:
        close(descriptor)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "close", fail)
    with pytest.raises(OSError, match="Disk quota exceeded"):
        replace_file(str(tmp_path / "record.json"), b"{}", str(tmp_path / "record.json.new"))
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
