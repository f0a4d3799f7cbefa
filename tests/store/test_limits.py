"""Limits of the machine: a clear error, and nothing lost."""

from __future__ import annotations

import contextlib
import os
import sqlite3  # noqa: F401 - another user may not be let to the files of this Python
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orun.errors import StoreError
from orun.store import Store
from tests.store.support import NOBODY, action, add, add_bytes, bytes_read, content, forks, in_child, needs_root

MEGABYTE = 1_000_000
KEPT = "Nothing that was stored is lost."


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(path)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill_up(path: Path) -> None:
    """Write until nothing more fits."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass


def leftovers(store: Store) -> list[str]:
    """Temporary files that are there though nothing is going on."""
    return [path.name for path in (store.root / "tmp").glob("*/*") if path.name != "lease"]


@needs_root
def test_a_full_disk_loses_nothing(disk: Path, tmp_path: Path) -> None:
    big = tmp_path / "big.bin"
    big.write_bytes(b"x" * 8 * MEGABYTE)
    with Store.open(disk / "store") as store:
        digest = add(store, {"model.onnx": b"proto"})
        store.put_action(action(tree=digest))
        before = bytes_read()
        with pytest.raises(StoreError) as caught:
            store.add_file(big)
        assert bytes_read() - before < MEGABYTE, "it is told before the work"
        (session,) = (store.root / "tmp").iterdir()
        assert str(caught.value) == (
            f"cannot store {big}: the disk is full\n"
            f"  {session}: No space left on device\n"
            f"  hint: {KEPT} Free some space and run it again: df -h {store.root}"
        )
        with pytest.raises(StoreError) as caught:
            add_bytes(store, big.read_bytes())
        assert str(caught.value).splitlines()[0] == "cannot store a file: the disk is full"
        assert leftovers(store) == ["1-output"]
        assert store.check(digest) == ()
        assert store.list_actions("a" * 64) == (action(tree=digest),)
        assert store.drain_notices() == []


@needs_root
def test_a_disk_that_is_full_to_the_last_byte_can_be_read(disk: Path) -> None:
    """No record, no index, no checkout can be written; what was stored can still be used, and space mends it."""
    with Store.open(disk / "store") as store:
        digest = add(store, {"model.onnx": b"proto", "model.data": b"w" * MEGABYTE})
        store.put_action(action(tree=digest))
    fill_up(disk / "ballast")
    with Store.open(disk / "store") as store:
        assert store.check(digest) == ()
        assert store.list_actions("a" * 64) == (action(tree=digest),)
        for refused in (
            lambda: store.put_action(action("b" * 64)),
            lambda: store.check_out(digest, "bert", "int8"),
            lambda: add_bytes(store, b"log"),
        ):
            with pytest.raises(StoreError, match=r"^cannot [^:]+: the disk is full\n"):
                refused()
        assert not (store.root / "out" / "bert").exists()
        (disk / "ballast").unlink()
        assert content(store.check_out(digest, "bert", "int8")[0]).keys() == {"model.onnx", "model.data"}
        store.put_action(action("b" * 64))
        assert store.list_actions("b" * 64) == (action("b" * 64),)


@needs_root
def test_a_read_only_store_can_be_read(disk: Path) -> None:
    with Store.open(disk / "store") as store:
        digest = add(store, {"model.onnx": b"proto"})
        store.put_action(action(tree=digest))
        store.check_out(digest, "bert", "int8")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with Store.open(disk / "store") as store:
        assert store.check(digest) == ()
        assert store.list_actions("a" * 64) == (action(tree=digest),)
        assert store.check_out(digest, "bert", "int8")[1] is False
        (notice,) = store.drain_notices()
        assert notice.startswith(f"the index in {store.root / 'index'} cannot be used (")
        with pytest.raises(StoreError) as caught:
            add_bytes(store, b"more")
    first, why, hint = str(caught.value).splitlines()
    assert first == "cannot store a file: the file system is read-only"
    assert why.endswith(": Read-only file system")
    assert hint == f"  hint: Choose a place that can be written (--store DIR): ls -ld {disk / 'store' / 'tmp'}"
    with pytest.raises(StoreError, match=r"^cannot open the store: the file system is read-only\n"):
        Store.open(disk / "another")


LIMITED = """
import resource, sys
from pathlib import Path
from orun.errors import StoreError
from orun.store import Store
from tests.store.support import add_bytes
store = Store.open(Path(sys.argv[1]))
kept = add_bytes(store, b"small")
limit = getattr(resource, sys.argv[2])
resource.setrlimit(limit, (int(sys.argv[3]), resource.getrlimit(limit)[1]))
locks = []
try:
    for number in range(100):
        lock = store.build_key_lock(str(number))
        lock.acquire()
        locks.append(lock)
        add_bytes(store, b"x" * 2_000_000)
except StoreError as error:
    print(error)
del lock, locks[:]
resource.setrlimit(limit, (resource.getrlimit(limit)[1],) * 2)
assert store.read(kept) == b"small"
"""


def limited(store: Path, limit: str, value: int) -> list[str]:
    """What a process prints that meets a limit while it stores large files and takes locks."""
    command = [sys.executable, "-c", LIMITED, str(store), limit, str(value)]
    return subprocess.check_output(command, text=True).splitlines()


def test_a_limit_on_the_size_of_files_is_told(tmp_path: Path) -> None:
    problem, why, hint = limited(tmp_path / "store", "RLIMIT_FSIZE", MEGABYTE)
    assert problem == "cannot store a file: a file is larger than this process may write"
    assert why.endswith(": File too large")
    assert hint == f"  hint: {KEPT} Raise the limit: ulimit -f unlimited"
    with Store.open(tmp_path / "store") as store:
        store.sweep()
        assert list((tmp_path / "store" / "tmp").iterdir()) == []


def test_a_limit_on_open_files_is_told(tmp_path: Path) -> None:
    problem, why, hint = limited(tmp_path / "store", "RLIMIT_NOFILE", 32)
    assert problem.endswith(": too many open files")
    assert why.endswith(": Too many open files")
    assert hint == "  hint: Raise the limit of this process: ulimit -n 4096"


def test_a_path_that_is_too_long_is_told(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 300)
    with pytest.raises(StoreError) as caught:
        Store.open(path)
    assert str(caught.value) == (
        "cannot open the store: a name is too long\n"
        f"  {path}: File name too long\n"
        f"  hint: Choose a place with a shorter path than {tmp_path}"
    )


def test_a_path_may_hold_anything(tmp_path: Path) -> None:
    folder = tmp_path / ("a store of größe 文 'quoted' [1] %s {x}" + "y" * 180)
    with Store.open(folder) as store:
        digest = add(store, {"my model.onnx": b"proto"})
        store.check_out(digest, "p", "s")
        assert store.check(digest) == ()
        assert content(store.check_out(digest, "p", "s")[0]) == {"my model.onnx": b"proto"}
    with Store.open(folder) as store:
        assert store.check(digest) == ()
        assert store.drain_notices() == []


@needs_root
@forks
def test_a_store_of_somebody_else_is_read_and_not_written(everybodys: Path) -> None:
    with Store.open(everybodys / "store") as store:
        digest = add(store, {"model.onnx": b"proto"})
        assert in_child(lambda: Store.open(store.root).check(digest), NOBODY) == "()"
        error = in_child(lambda: add_bytes(Store.open(store.root), b"mine"), NOBODY)
    first, why, hint = error.splitlines()
    assert first == "StoreError: cannot store a file: permission denied"
    assert why.startswith(f"  {store.root / 'tmp'}/")
    assert why.endswith(": Permission denied")
    assert hint == f"  hint: See whose it is: ls -ld {store.root / 'tmp'}"


@pytest.mark.slow
@needs_root
@forks
def test_a_store_that_a_group_shares_is_written_by_all(everybodys: Path) -> None:
    """Each user replaces what another one has placed, where their umask lets the group write."""

    def placed(text: str) -> object:
        os.umask(0o002)
        with Store.open(everybodys / "store") as store:
            digest = add(store, {"model.onnx": text.encode(), "sub/a": b"the same"})
            read = content(store.check_out(digest, "p", "s")[0])["model.onnx"].decode()
            return read, store.check(digest), store.drain_notices()

    for text, user in (("one", NOBODY), ("two", NOBODY - 1), ("one", NOBODY), ("three", NOBODY - 1)):
        assert in_child(lambda: placed(text), user) == f"('{text}', (), [])"  # noqa: B023 - called at once


@needs_root
@forks
def test_files_that_lost_the_rights_of_their_owner_get_them_back(everybodys: Path) -> None:
    """As by a copy of the store with other modes, or `chmod -R`; root would not notice."""
    root = everybodys / "store"

    def stored() -> None:
        with Store.open(root) as store:
            store.put_action(action(tree=add(store, {"model.onnx": b"proto"})))

    def read() -> object:
        for path in (*root.glob("actions/*/*/*"), *root.glob("index/*.sqlite")):
            path.chmod(0o444 if path.suffix == ".sqlite" else 0)
        with Store.open(root) as store:
            digest = add(store, {"model.onnx": b"another"})
            return len(store.list_actions("a" * 64)), store.check(digest), store.drain_notices()

    assert in_child(stored, NOBODY) == "None"
    assert in_child(read, NOBODY) == "(1, (), [])"


def test_a_folder_that_cannot_be_stored_is_named(store: Store) -> None:
    folder = store.make_session_folder("output") / "nothing"
    with pytest.raises(StoreError) as caught:
        store.add_tree(folder)
    assert str(caught.value) == (
        f"cannot store {folder}: no such file or directory\n"
        f"  {folder}: No such file or directory\n"
        f"  hint: Look at what is there: ls -ld {folder.parent}"
    )
