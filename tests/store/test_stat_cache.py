"""Digests of the user's own files: by content, read again only when they may have changed."""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
import time
from pathlib import Path

import pytest
from blake3 import blake3

from orun.errors import StoreError
from orun.fs import traits
from orun.fs.signatures import read_signature, to_signature
from orun.store import Store, stat_cache
from tests.store.support import bytes_read, fill, needs_proc

BIG = os.urandom(1 << 20)


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the clock be ahead: a file's ctime cannot be set back."""
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + int(seconds * 1e9))


def leases(path: Path) -> bool:
    """Whether one can be had to read a file, as where nobody may write to it."""
    with path.open("rb") as file:
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except BlockingIOError:
            return False
    return True


def test_a_file_of_another_number_is_another_file(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("1")
    with Store.open(tmp_path / "store") as store:
        seen = read_signature(path)
        assert seen
        assert store.files.is_same(path, seen, seen)
        assert store.files.is_same(path, None, None)
        assert not store.files.is_same(path, None, seen)
        assert not store.files.is_same(path, seen, (seen[0], seen[1] + 1, *seen[2:]))


def test_a_file_has_the_digest_of_its_content(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    for data in (b"", b"one", BIG, b"two"):
        path.write_bytes(data)
        assert store.files.digest_file(path) == store.files.digest_path(path) == blake3(data).hexdigest()


@needs_proc
def test_an_old_file_is_read_once_by_all_processes(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(BIG)
    later(monkeypatch, 3)
    digest = store.files.digest_file(path)
    store.close()
    before = bytes_read()
    with Store.open(tmp_path / "store") as other:
        assert other.files.digest_file(path) == digest
    path.rename(tmp_path / "renamed")
    assert bytes_read() - before < 100_000


@needs_proc
@pytest.mark.parametrize("kind", ["vfat", "fuse.sshfs"])
def test_where_inodes_are_numbered_anew_nothing_is_known_to_the_next_process(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Two files of one size and time that were swapped may have each other's signatures when they are mounted again."""
    monkeypatch.setattr(traits, "read_filesystem_type", lambda _path: kind)
    path = tmp_path / "data.bin"
    path.write_bytes(BIG)
    later(monkeypatch, 3)
    assert not store.files.keeps_inodes(path)
    before = bytes_read()
    digest = store.files.digest_file(path)
    assert bytes_read() - before >= len(BIG)
    before = bytes_read()
    assert store.files.digest_file(path) == digest
    assert bytes_read() - before < len(BIG)
    assert not store.files.knows(to_signature(path.stat()))
    store.close()
    with Store.open(tmp_path / "store") as other:
        before = bytes_read()
        assert other.files.digest_file(path) == digest
        assert bytes_read() - before >= len(BIG)


@needs_proc
def test_a_file_that_was_just_written_is_read_again(store: Store, tmp_path: Path) -> None:
    """Within a tick of its clock a file system shows no difference (git's racy rule)."""
    path = tmp_path / "data.bin"
    path.write_bytes(BIG)
    before = bytes_read()
    store.files.digest_file(path)
    store.files.digest_file(path)
    assert bytes_read() - before > 2 * len(BIG)


def test_an_edit_that_keeps_size_and_mtime_is_seen(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(b"one")
    later(monkeypatch, 3)
    store.files.digest_file(path)
    status = path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert store.files.digest_file(path) == blake3(b"two").hexdigest()


@pytest.mark.skipif(sys.platform != "linux", reason="there are no leases")
def test_what_a_process_writes_by_a_mapping_is_seen(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first write to a page changes the times of a file."""
    path = tmp_path / "data.bin"
    path.write_bytes(b"one")
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 3) as mapped:
        file.close()
        if leases(path):
            pytest.skip("this file system does not know of mappings")
        mapped[:] = b"two"
        later(monkeypatch, 3)
        assert store.files.digest_file(path) == blake3(b"two").hexdigest()
        mapped[:] = b"new"
        assert store.files.digest_file(path) == blake3(b"new").hexdigest()
    assert not store.files.knows(to_signature(path.stat()))
    store.files.digest_file(path)
    assert store.files.knows(to_signature(path.stat())), "nobody writes to it any more"


@pytest.mark.skipif(sys.platform != "linux", reason="there are no leases")
def test_a_network_that_gives_no_leases_does_not_have_its_files_read_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS refuses them as if somebody wrote, wherever its server has not handed the file over."""
    assert traits.read_filesystem_type("/proc/self/status") == "proc"
    monkeypatch.setattr(traits, "LOCAL", frozenset({"proc"}))
    path = tmp_path / "data.bin"
    path.write_bytes(b"one")
    later(monkeypatch, 3)
    with path.open("r+b"):
        store.files.digest_file(path)
    assert store.files.knows(to_signature(path.stat()))


def test_a_folder_has_the_digest_of_its_names_and_contents(store: Store, tmp_path: Path) -> None:
    def digest(files: dict[str, bytes]) -> str:
        folder = tmp_path / str(time.monotonic_ns())
        return store.files.digest_path(fill(folder, files))

    first = digest({"b": b"1", "a/c": b"2"})
    assert digest({"a/c": b"2", "b": b"1"}) == first
    assert digest({"a/c": b"2", "b": b"1", "__pycache__/x.pyc": b"3", "a/__pycache__/y.pyc": b"4"}) == first
    different = [
        digest(files)
        for files in (
            {"b": b"1"},
            {"b": b"1", "a/d": b"2"},
            {"b": b"2", "a/c": b"1"},
            {"b": b"1", "ac": b"2"},
            {"b": b"1", "a/c": b"2", "README.md": b""},
            {},
        )
    ]
    assert len({first, *different}) == 7
    assert digest({"a": b"x"}) != blake3(b"x").hexdigest()


def test_what_a_link_leads_to_counts(store: Store, tmp_path: Path) -> None:
    fill(tmp_path / "blobs", {"one": b"1", "deep/two": b"2"})
    plain = store.files.digest_path(fill(tmp_path / "plain", {"model.onnx": b"1", "more/two": b"2"}))
    linked = fill(tmp_path / "linked", {})
    (linked / "model.onnx").symlink_to("../blobs/one")
    (linked / "more").symlink_to("../blobs/deep")
    assert store.files.digest_path(linked) == plain


def test_nothing_there_has_an_empty_digest(store: Store, tmp_path: Path) -> None:
    assert store.files.digest_path(tmp_path / "nothing") == ""
    with pytest.raises(FileNotFoundError):
        store.files.digest_file(tmp_path / "nothing")


def test_a_folder_that_contains_itself_is_an_error(store: Store, tmp_path: Path) -> None:
    folder = fill(tmp_path / "data", {"sub/a": b"1"})
    (folder / "sub" / "loop").symlink_to("..")
    with pytest.raises(StoreError) as caught:
        store.files.digest_path(folder)
    loop = folder / "sub" / "loop"
    assert str(caught.value) == (
        f"cannot read {folder}: it leads back to itself\n"
        f"  {loop}: A link to {folder}, which it is in\n"
        f"  hint: Remove that link: ls -l {loop}"
    )


def test_a_pipe_is_not_waited_for(store: Store, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="Not a regular file"):
        store.files.digest_file(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        store.files.digest_file(tmp_path)
    with pytest.raises(StoreError) as caught:
        store.files.digest_path(tmp_path / "pipe")
    assert str(caught.value) == (
        f"cannot read {tmp_path / 'pipe'}: not a regular file\n"
        f"  {tmp_path / 'pipe'}: Not a regular file\n"
        f"  hint: Look at what is there: ls -ld {tmp_path / 'pipe'}"
    )


def test_a_file_that_never_comes_to_rest_is_an_error(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "growing.log"
    path.write_bytes(BIG)
    read = os.read

    def grow_and_read(descriptor: int, count: int) -> bytes:
        with path.open("ab") as file:
            file.write(b".")
        return read(descriptor, count)

    monkeypatch.setattr(os, "read", grow_and_read)
    with pytest.raises(StoreError) as caught:
        store.files.digest_path(path)
    assert str(caught.value) == (
        f"cannot read {path}: another process writes to it\n"
        f"  {path}: Changes while it is read\n"
        f"  hint: Wait for that process; see which it is: fuser -v {path}"
    )


def test_a_file_that_was_put_back_to_an_old_time_just_now_may_change_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stat_cache, "CLOCK", 3600 * 10**9)  # so that its change is recent however slow this is
    path = tmp_path / "data.txt"
    path.write_bytes(b"one")
    os.utime(path, ns=(0, 0))
    assert store.files.digest_file(path) == blake3(b"one").hexdigest()
    assert store.parts.index.get(to_signature(path.stat())) is None
