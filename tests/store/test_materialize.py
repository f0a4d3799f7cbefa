"""Placed trees: read-only inputs of a stage, and objects that stay trusted when these come and go."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from blake3 import blake3

from orun.errors import StoreError
from orun.fs.copying import link, reflink
from orun.fs.durable import READ_ONLY
from orun.store import Store, materialize
from tests.store.support import (
    add,
    bytes_read,
    content,
    edit_and_restore_time,
    fill,
    flip,
    has_reflinks,
    needs_proc,
    object_path,
)

FILES = {"a.bin": b"one", "sub/deep/b.bin": b"two"}
BIG = os.urandom(1 << 20)


def mode(path: Path) -> str:
    return stat.filemode(path.stat().st_mode)


def test_a_placed_tree_is_read_only(store: Store, tmp_path: Path) -> None:
    store.materialize(add(store, FILES), tmp_path / "inputs" / "model")
    folder = tmp_path / "inputs" / "model"
    assert content(folder) == FILES
    assert [mode(path) for path in (folder, folder / "sub", folder / "sub/deep")] == ["dr-xr-xr-x"] * 3
    assert mode(folder / "a.bin") == mode(folder / "sub/deep/b.bin") == "-r--r--r--"
    store.discard(folder)
    assert not folder.exists()


def test_a_folder_deeper_than_a_path_may_be_long_is_removed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had kept every later run from cleaning up after the one that left it."""
    folder = store.make_session_folder("deep")
    monkeypatch.chdir(folder)
    for _ in range(25):
        Path("d" * 200).mkdir()
        Path("file").touch()
        os.chdir("d" * 200)
    os.chdir(folder)
    store.discard(folder)
    assert not folder.exists()


def test_files_are_hard_links_where_there_are_no_reflinks(store: Store, tmp_path: Path) -> None:
    if has_reflinks(store):
        pytest.skip("this file system has reflinks, which go first")
    store.materialize(add(store, FILES), tmp_path / "placed")
    placed = (tmp_path / "placed" / "a.bin").stat()
    assert placed.st_ino == object_path(store, blake3(b"one").hexdigest()).stat().st_ino


@pytest.mark.parametrize("refused", [errno.EOPNOTSUPP, errno.ENOTTY, errno.EAGAIN], ids=errno.errorcode.get)
def test_a_file_that_cannot_be_shared_now_is_linked(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    """ZFS says EAGAIN while it has yet to write the blocks of a new file to their places."""

    def refuse(*_: object) -> int:
        raise OSError(refused, os.strerror(refused))

    monkeypatch.setattr("fcntl.ioctl", refuse)
    digest = add(store, FILES)
    store.materialize(digest, tmp_path / "placed")
    placed = (tmp_path / "placed" / "a.bin").stat()
    assert placed.st_ino == object_path(store, blake3(b"one").hexdigest()).stat().st_ino
    assert content(tmp_path / "placed") == FILES


def test_external_data_of_a_model_has_one_hard_link(store: Store, tmp_path: Path) -> None:
    """The onnx package refuses to read it otherwise (onnx/onnx#7686)."""
    digest = add(store, {"model.onnx": b"proto", "model.onnx.data": b"weights", "sub/more": b"weights 2"})
    store.materialize(digest, tmp_path / "placed")
    checkout, _ = store.check_out(digest, "p", "s")
    for folder in (tmp_path / "placed", checkout):
        assert (folder / "model.onnx.data").stat().st_nlink == 1
        assert (folder / "sub/more").stat().st_nlink == 1
        assert mode(folder / "model.onnx.data") == "-r--r--r--"
    assert store.check(digest) == ()


def test_onnx_loads_a_model_with_external_data_from_where_it_is_placed(store: Store, tmp_path: Path) -> None:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.arange(4, dtype=np.float32), "w")
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", value[:1], value[1:], [weights])
    output = store.make_session_folder("output")
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])
    onnx.save_model(model, output / "model.onnx", save_as_external_data=True, location="data", size_threshold=0)
    digest = store.add_tree(output).digest
    store.materialize(digest, tmp_path / "placed")
    for folder in (tmp_path / "placed", store.check_out(digest, "p", "s")[0]):
        loaded = onnx.load(folder / "model.onnx")
        onnx.checker.check_model(folder / "model.onnx")
        assert numpy_helper.to_array(loaded.graph.initializer[0]).tolist() == [0, 1, 2, 3]


def test_an_executable_has_a_mode_of_its_own(store: Store, tmp_path: Path) -> None:
    folder = fill(store.make_session_folder("output"), {"run.sh": b"#!/bin/sh\n", "same.txt": b"#!/bin/sh\n"})
    (folder / "run.sh").chmod(0o744)
    digest = store.add_tree(folder).digest
    store.materialize(digest, tmp_path / "placed")
    assert mode(tmp_path / "placed" / "run.sh") == "-r-xr-xr-x"
    assert mode(tmp_path / "placed" / "same.txt") == "-r--r--r--"
    assert store.check(digest) == ()
    assert store.check_out(digest, "p", "s")[1]
    assert not store.check_out(digest, "p", "s")[1]


def test_where_links_cannot_be_files_are_copied(store: Store, tmp_path: Path) -> None:
    other = Path("/dev/shm")  # noqa: S108
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no second file system here")
    digest = add(store, {"model.onnx": b"proto", "big.bin": BIG})
    folder = other / f"orun-test-{os.getpid()}"
    try:
        store.materialize(digest, folder)
        assert content(folder) == {"model.onnx": b"proto", "big.bin": BIG}
        assert mode(folder / "big.bin") == "-r--r--r--"
    finally:
        store.discard(folder)


@needs_proc
@pytest.mark.parametrize("name", ["a.bin", "model.onnx"])
def test_placing_and_discarding_reads_no_artifact(store: Store, tmp_path: Path, name: str) -> None:
    digest = add(store, {name: BIG})
    before = bytes_read()
    for count in range(3):
        store.materialize(digest, tmp_path / f"inputs{count}")
    for count in range(3):
        store.discard(tmp_path / f"inputs{count}")
    assert store.check(digest) == ()
    with Store.open(tmp_path / "store") as other:
        assert other.check(digest) == ()
    assert bytes_read() - before < 100_000


@needs_proc
def test_links_removed_by_hand_cost_one_reading(store: Store, tmp_path: Path) -> None:
    digest = add(store, {"a.bin": BIG})
    if has_reflinks(store):
        pytest.skip("a reflink leaves its object alone")
    store.materialize(digest, tmp_path / "placed")
    (tmp_path / "placed").chmod(0o755)
    shutil.rmtree(tmp_path / "placed")
    before = bytes_read()
    assert store.check(digest) == ()
    assert store.check(digest) == ()
    assert len(BIG) <= bytes_read() - before < len(BIG) + 100_000


def test_an_edited_link_does_not_make_its_object_trusted(store: Store, tmp_path: Path) -> None:
    digest = add(store, {"a.bin": b"one"})
    if has_reflinks(store):
        pytest.skip("a reflink leaves its object alone")
    store.materialize(digest, tmp_path / "placed")
    flip(tmp_path / "placed" / "a.bin")
    store.discard(tmp_path / "placed")
    assert store.check(digest) == ("a.bin was damaged in the store",)


def test_discard_takes_whatever_a_stage_leaves(store: Store) -> None:
    folder = fill(store.make_session_folder("stage"), {"output/a": b"1", "work/b": b"2"})
    (folder / "work" / "link").symlink_to("/etc")
    (folder / "work" / "dangling").symlink_to("nowhere")
    os.mkfifo(folder / "work" / "pipe")
    (folder / "work" / "b").chmod(0)
    (folder / "work").chmod(0)
    store.discard(folder)
    assert not folder.exists()
    assert Path("/etc").is_dir()
    store.discard(folder)  # nothing there: nothing happens


def test_a_reflink_has_its_mode_whatever_the_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").touch()
    monkeypatch.setattr("fcntl.ioctl", lambda *_: 0)  # few file systems have reflinks
    before = os.umask(0o077)
    try:
        assert reflink(str(tmp_path / "source"), str(tmp_path / "target"), READ_ONLY)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "target").stat().st_mode) == READ_ONLY


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize(
    ("damage", "problem"), [(flip, "damaged"), (edit_and_restore_time, "damaged"), (Path.unlink, "missing")]
)
def test_a_damaged_object_is_not_placed(
    store: Store, tmp_path: Path, damage: Callable[[Path], None], problem: str, copied: bool
) -> None:
    folder = fill(store.make_session_folder("output"), {"tool": b"0123"})
    (folder / "tool").chmod(0o755 if copied else 0o644)
    tree = store.add_tree(folder)
    store.materialize(tree.digest, tmp_path / "before")  # from then on it is known whether there are reflinks
    damage(object_path(store, tree.entries[0].digest))
    with pytest.raises(StoreError) as caught:
        store.materialize(tree.digest, tmp_path / "placed")
    assert str(caught.value) == (
        "tool cannot be taken from the store\n"
        f"  its object {tree.entries[0].digest} is {problem}\n"
        "  hint: Run the pipeline again: the stage that made it will be built again"
    )
    assert store.check(tree.digest) == ("tool is missing from the store",)


def test_an_object_that_is_edited_while_it_is_linked_is_not_trusted(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_reflinks(store):
        pytest.skip("this file system has reflinks, which go first")
    digest = add(store, {"a.bin": b"one"})

    def edit_and_link(source: str, target: str) -> bool:
        flip(Path(source))
        return link(source, target)

    monkeypatch.setattr(materialize, "link", edit_and_link)
    store.materialize(digest, tmp_path / "placed")
    assert store.check(digest) == ("a.bin was damaged in the store",)


def test_an_object_that_is_edited_once_it_was_looked_at_is_not_trusted(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_reflinks(store):
        pytest.skip("this file system has reflinks, which go first")
    digest, objects = add(store, {"a.bin": b"one"}), store.parts.objects
    look = objects.find_problem

    def look_and_edit(path: str) -> str:
        status = look(path)
        flip(Path(objects.locate(path)))
        return status

    monkeypatch.setattr(objects, "find_problem", look_and_edit)
    store.materialize(digest, tmp_path / "placed")
    monkeypatch.undo()
    assert store.check(digest) == ("a.bin was damaged in the store",)
