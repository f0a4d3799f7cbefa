"""Scratch folders: there while their owner lives, gone after its death."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from orun.store import Store
from orun.store.session_directory import read_live_leases, sweep
from tests.store.support import add, content, fill, forks, in_child, needs_proc

ORPHAN = """
import os, signal, sys
from pathlib import Path
from orun.store import Store
store = Store.open(Path(sys.argv[1]))
store.create_run("bert")
folder = store.make_session_folder("int8[per_channel=true]/x")
(folder / "work").mkdir()
(folder / "work" / "model.onnx").write_bytes(b"half a model")
(folder / "work").chmod(0o555)
store.materialize(sys.argv[2], folder / "inputs")
os.kill(os.getpid(), signal.SIGKILL)
"""


def names(store: Store) -> list[str]:
    return sorted(path.name for path in (store.root / "tmp").iterdir())


def kill_one(store: Store, digest: str) -> None:
    command = [sys.executable, "-c", ORPHAN, str(store.root), digest]
    assert subprocess.run(command, check=False).returncode == -9


def test_a_session_folder_is_new_and_empty(store: Store) -> None:
    first, second = store.make_session_folder("int8"), store.make_session_folder("int8")
    assert first != second
    assert content(first) == content(second) == {}
    assert first.stat().st_dev == (store.root / "objects").stat().st_dev
    assert store.make_session_folder("../a/b").parent == first.parent


def test_close_removes_what_is_temporary(store: Store) -> None:
    fill(store.make_session_folder("int8"), {"work/model.onnx": b"half a model"})
    store.close()
    assert names(store) == []
    store.close()


@needs_proc
def test_nothing_is_left_where_an_open_file_keeps_its_folder(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on NFS and FUSE, where a file that is removed while it is open has another name until it is closed."""
    rmdir = os.rmdir

    def remove(folder: str) -> None:
        opened = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]  # noqa: PTH208
        if any(os.path.lexists(path) and os.readlink(path).startswith(f"{folder}/") for path in opened):  # noqa: PTH115
            raise OSError(errno.ENOTEMPTY, "Directory not empty", folder)
        rmdir(folder)

    kill_one(store, add(store, {"model.onnx": b"model"}))
    monkeypatch.setattr(os, "rmdir", remove)
    store.sweep()
    store.close()
    assert names(store) == []


def test_a_store_that_was_deleted_is_closed_without_a_word(store: Store) -> None:
    store.make_session_folder("int8")
    shutil.rmtree(store.root)
    store.close()


def test_a_store_that_nobody_needs_any_more_is_closed(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    store.make_session_folder("int8")
    del store
    assert list((tmp_path / "store" / "tmp").iterdir()) == []


def test_the_end_of_the_process_closes_it(tmp_path: Path) -> None:
    code = (
        "import sys; from orun.store import *; store = Store.open(Path(sys.argv[1]));"
        " store.make_session_folder('x'); raise SystemExit(3)"
    )
    command = [sys.executable, "-c", f"from pathlib import Path; {code}", str(tmp_path / "store")]
    assert subprocess.run(command, check=False).returncode == 3
    assert list((tmp_path / "store" / "tmp").iterdir()) == []


def test_a_sweep_removes_what_the_dead_left_and_nothing_else(store: Store) -> None:
    digest = add(store, {"model.onnx": b"proto"})
    mine = store.make_session_folder("mine")
    kill_one(store, digest)
    assert len(names(store)) == 2
    store.sweep()
    assert names(store) == [mine.parent.name]
    assert mine.is_dir()
    assert store.check(digest) == ()
    assert store.drain_notices() == []


@pytest.mark.parametrize("files", [{}, {"1-source/output/text": b"half"}])
def test_a_sweep_takes_what_was_never_locked_or_lost_its_lease_with_power(
    store: Store, files: Mapping[str, bytes]
) -> None:
    fill(store.root / "tmp" / "1-lost", files)
    store.sweep()
    assert names(store) == []


def test_a_sweep_leaves_what_gets_its_lease_meanwhile(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner takes its lease and begins to work between the sweep's look for one and its attempt to remove."""
    folder = store.root / "tmp" / "1-young"
    folder.mkdir()
    remove = os.rmdir

    def slow(path: str) -> None:
        fill(folder, {"lease": b"", "1-source/text": b"whole"})
        remove(path)

    monkeypatch.setattr(os, "rmdir", slow)
    store.sweep()
    assert content(folder) == {"lease": b"", "1-source/text": b"whole"}


def test_a_session_that_is_being_swept_is_not_begun(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep that finds a new folder before its owner has locked it removes it; the owner makes another one."""
    makedirs = os.makedirs
    folders: list[str] = []

    def make_and_sweep(path: str) -> None:
        folders.append(path)
        makedirs(path)
        if len(folders) == 1:
            sweep(store.root / "tmp", lambda _: None)

    monkeypatch.setattr(os, "makedirs", make_and_sweep)
    folder = store.make_session_folder("int8")
    assert len(folders) == 2
    assert names(store) == [folder.parent.name]
    assert str(folder.parent) == folders[1]


def test_a_run_leases_its_folder_and_what_it_is_asked_for(store: Store, tmp_path: Path) -> None:
    digest = add(store, {"model.onnx": b"proto"})
    leased = {digest, *(entry.digest for entry in store.read_tree(digest).entries)}  # type: ignore[union-attr]
    store.close()
    with Store.open(tmp_path / "store") as run:
        run.check(digest)
        assert read_live_leases(run.root / "tmp") == set()  # a plan is not a run
        folder = run.create_run("bert")
        run.check(digest)
        run.check(digest)
        assert read_live_leases(run.root / "tmp") == {folder.name, *leased}
    assert read_live_leases(store.root / "tmp") == set()


@forks
def test_a_forked_child_has_a_session_of_its_own(store: Store) -> None:
    mine = store.make_session_folder("mine")
    assert in_child(lambda: store.make_session_folder("child").parent == mine.parent) == "False"
    assert mine.is_dir()
    store.sweep()
    assert names(store) == [mine.parent.name]
