"""Trees: a folder as a canonical list of files; what cannot be one is refused."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from blake3 import blake3

from orun.errors import StoreError
from orun.store import Entry, Store
from orun.store.trees import decode, encode
from tests.store.support import add_bytes, content, fill, object_path


def digest_of(data: bytes) -> str:
    return blake3(data).hexdigest()


def test_the_list_of_files_is_canonical(store: Store) -> None:
    folder = fill(store.make_session_folder("output"), {"b.txt": b"two", "a/deep/c.txt": b"three", "run.sh": b"#!"})
    (folder / "run.sh").chmod(0o755)
    described = store.describe(folder)
    assert not any((store.root / "objects").iterdir())
    tree = store.add_tree(folder)
    assert described == tree
    text = (
        '{"files":['
        f'{{"digest":"{digest_of(b"three")}","executable":false,"path":"a/deep/c.txt","size":5}},'
        f'{{"digest":"{digest_of(b"two")}","executable":false,"path":"b.txt","size":3}},'
        f'{{"digest":"{digest_of(b"#!")}","executable":true,"path":"run.sh","size":2}}'
        '],"hash":"blake3","tree":1}'
    )
    assert store.read(tree.digest) == text.encode()
    assert tree.digest == digest_of(text.encode())
    assert tree.size == 10
    assert store.read_tree(tree.digest) == tree


def test_the_digest_depends_on_content_names_and_mode_alone(store: Store, tmp_path: Path) -> None:
    def digest(name: str, data: bytes, mode: int, time: int) -> str:
        folder = fill(store.make_session_folder("output"), {name: data})
        (folder / "empty").mkdir()
        (folder / name).chmod(mode)
        os.utime(folder / name, (time, time))
        return store.add_tree(folder).digest

    first = digest("a", b"1", 0o644, 1)
    assert digest("a", b"1", 0o600, 2) == first
    assert len({first, digest("b", b"1", 0o644, 1), digest("a", b"2", 0o644, 1), digest("a", b"1", 0o755, 1)}) == 4
    with Store.open(tmp_path / "other") as other:
        assert other.add_tree(fill(other.make_session_folder("output"), {"a": b"1"})).digest == first


def test_an_empty_folder_is_a_tree(store: Store) -> None:
    tree = store.add_tree(store.make_session_folder("output"))
    assert (tree.entries, tree.size) == ((), 0)
    assert store.check(tree.digest) == ()
    store.materialize(tree.digest, store.root.parent / "placed")
    assert content(store.root.parent / "placed") == {}


def test_files_are_moved_not_copied(store: Store) -> None:
    folder = fill(store.make_session_folder("output"), {"model.onnx": b"weights"})
    inode = (folder / "model.onnx").stat().st_ino
    tree = store.add_tree(folder)
    assert object_path(store, tree.entries[0].digest).stat().st_ino == inode
    assert content(folder) == {}


def test_a_file_with_another_name_elsewhere_is_left_alone(store: Store, tmp_path: Path) -> None:
    mine = tmp_path / "mine.bin"
    mine.write_bytes(b"the user's own")
    mine.chmod(0o640)
    os.utime(mine, (1, 1))
    folder = store.make_session_folder("output")
    (folder / "model.onnx").hardlink_to(mine)
    tree = store.add_tree(folder)
    assert store.check(tree.digest) == ()
    assert (mine.read_bytes(), mine.stat().st_mtime, stat.S_IMODE(mine.stat().st_mode)) == (
        b"the user's own",
        1,
        0o640,
    )
    mine.write_bytes(b"edited")
    assert store.read(tree.entries[0].digest) == b"the user's own"


def test_a_file_on_another_file_system_is_copied(store: Store) -> None:
    memory = Path("/dev/shm")  # noqa: S108
    if not memory.is_dir() or memory.stat().st_dev == store.root.stat().st_dev:
        pytest.skip("no second file system here")
    with TemporaryDirectory(dir=memory) as folder:
        files = {"model.onnx": b"weights", "labels.txt": b"cat"}
        tree = store.add_tree(fill(Path(folder), files))
        assert content(Path(folder)) == files
    assert store.check(tree.digest) == ()


def test_a_hard_link_to_an_object_is_that_object(store: Store) -> None:
    digest = add_bytes(store, b"weights")
    folder = store.make_session_folder("output")
    (folder / "model.onnx").hardlink_to(object_path(store, digest))
    tree = store.add_tree(folder)
    assert tree.entries[0].digest == digest
    assert store.read(digest) == b"weights"


def refused(store: Store, folder: Path) -> str:
    with pytest.raises(StoreError) as caught:
        store.add_tree(folder)
    return str(caught.value)


@pytest.mark.parametrize("name", ["link", "pipe"])
def test_nothing_but_files_and_folders_is_stored(store: Store, name: str) -> None:
    folder = fill(store.make_session_folder("output"), {"sub/a": b"1"})
    if name == "link":
        (folder / "sub" / name).symlink_to("a")
    else:
        os.mkfifo(folder / "sub" / name)
    assert refused(store, folder) == (
        f"'sub/{name}' cannot be stored\n"
        "  it is neither a file nor a folder\n"
        "  hint: Leave only files and folders in the output folder"
    )


def test_unusual_names_are_kept(store: Store, tmp_path: Path) -> None:
    files = {"späce in ünicode 文.onnx": b"1", "new\nline": b"2", '"quoted"\\': b"3", "-x": b"4", "a..b/..c": b"5"}
    tree = store.add_tree(fill(store.make_session_folder("output"), files))
    store.materialize(tree.digest, tmp_path / "placed")
    assert content(tmp_path / "placed") == files


def test_a_file_that_is_written_to_while_it_is_stored_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fill(store.make_session_folder("output"), {"model.onnx": b"weights"})
    path = folder / "model.onnx"

    def write_then_sync(descriptor: int) -> None:
        monkeypatch.undo()
        path.chmod(0o644)
        path.write_bytes(b"WEIGHTS")
        os.fsync(descriptor)

    monkeypatch.setattr(os, "fsync", write_then_sync)
    assert refused(store, folder) == (
        f"{path} was written to while it was stored\n"
        "  a process that the stage started is still running\n"
        f"  hint: End that process before the stage ends; see which it is: fuser -v {path}"
    )


@pytest.mark.parametrize("seen", [True, False])
def test_a_linked_file_that_is_edited_while_it_is_copied_is_refused(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, seen: bool
) -> None:
    """Its beginning of before and its end of after had been stored as one."""
    data, folder = tmp_path / "data", fill(store.make_session_folder("output"), {})
    data.write_bytes(b"a" * (3 << 20))
    moment = 10**9 if seen else time.time_ns() + 60 * 10**9  # in the same tick of a coarse clock, however slow this is
    os.utime(data, ns=(moment, moment))
    (folder / "data").hardlink_to(data)
    read = os.read

    def read_then_edit(descriptor: int, size: int) -> bytes:
        beginning = read(descriptor, size)
        monkeypatch.undo()
        data.write_bytes(b"b" * (3 << 20))
        if not seen:
            os.utime(data, ns=(moment, moment))
        return beginning

    monkeypatch.setattr(os, "read", read_then_edit)
    assert refused(store, folder) == (
        f"{folder / 'data'} was written to while it was stored\n"
        "  it has another name, too, or another owner\n"
        "  hint: Run again when no other process writes to it"
    )


def test_a_tree_that_is_not_there_is_a_miss(store: Store) -> None:
    assert store.read_tree("0" * 64) is None
    assert store.check("0" * 64) == ("its list of files is missing or was damaged",)


def test_a_damaged_list_of_files_is_a_miss(store: Store, tmp_path: Path) -> None:
    digest = store.add_tree(fill(store.make_session_folder("output"), {"a": b"1"})).digest
    path = object_path(store, digest)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b'"a"', b'"b"'))
    assert store.check(digest) == ("its list of files is missing or was damaged",)
    assert len(store.drain_notices()) == 1
    with Store.open(tmp_path / "store") as other:
        assert other.read_tree(digest) is None
        with pytest.raises(StoreError) as caught:
            other.materialize(digest, tmp_path / "placed")
    assert str(caught.value) == (
        f"tree {digest} is not in the store\n"
        "  the list of its files is missing or was damaged\n"
        "  hint: Run the pipeline again: the stage that made it will be built again"
    )


def test_an_object_that_is_no_tree_is_an_error(store: Store) -> None:
    digest = add_bytes(store, b'{"model": 1}')
    with pytest.raises(StoreError) as caught:
        store.read_tree(digest)
    assert str(caught.value) == (
        f"object {digest} is not a tree\n"
        "  it is not a list of files\n"
        "  hint: Name the digest of an artifact, not of one of its files: orun explain STAGE"
    )


D = "0" * 64


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([("/etc/passwd", 1, D)], "the list of files names '/etc/passwd', which is not a path inside a folder"),
        ([("../x", 1, D)], "the list of files names '../x', which is not a path inside a folder"),
        ([("a/../../x", 1, D)], "the list of files names 'a/../../x', which is not a path inside a folder"),
        ([("..", 1, D)], "the list of files names '..', which is not a path inside a folder"),
        ([(".", 1, D)], "the list of files names '.', which is not a path inside a folder"),
        ([("", 1, D)], "the list of files names '', which is not a path inside a folder"),
        ([("a/", 1, D)], "the list of files names 'a/', which is not a path inside a folder"),
        ([("a//b", 1, D)], "the list of files names 'a//b', which is not a path inside a folder"),
        ([("a\0b", 1, D)], "the list of files names 'a\\x00b', which is not a path inside a folder"),
        ([("a", 1, "../" + "0" * 61)], "the list of files holds a value of another type"),
        ([("b", 1, D), ("a", 1, D)], "the list of files is not sorted, or names one twice"),
        ([("a", 1, D), ("a", 1, D)], "the list of files is not sorted, or names one twice"),
        ([("a", 1, D), ("a/b", 1, D)], "the list of files names one as a folder too"),
    ],
)
def test_a_hostile_list_of_files_is_refused(entries: list[tuple[str, int, str]], message: str) -> None:
    with pytest.raises(ValueError, match="list of files") as caught:
        decode(encode(tuple(Entry(*entry) for entry in entries)))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"not json", "Expecting value: line 1 column 1 (char 0)"),
        (b"[]", "it is not a list of files"),
        (b"[" * 100_000, "it is not a list of files"),
        (b'{"files":[],"hash":"sha1","tree":1}', "the list of files is not in its canonical form"),
        (b'{"files":[],"hash":"blake3","tree":2}', "the list of files is not in its canonical form"),
        (b'{"files": [],"hash":"blake3","tree":1}', "the list of files is not in its canonical form"),
    ],
)
def test_only_the_canonical_form_is_a_list_of_files(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        decode(data)
    assert str(caught.value) == message


@pytest.mark.parametrize(("mode", "executable"), [(0o744, True), (0o644, False), (0o654, False)])
def test_a_file_is_executable_when_its_owner_may_execute_it(store: Store, mode: int, executable: bool) -> None:
    folder = fill(store.make_session_folder("output"), {"tool": b"0123"})
    (folder / "tool").chmod(mode)
    assert store.describe(folder).entries[0].executable is executable
    assert store.add_tree(folder).entries[0].executable is executable
