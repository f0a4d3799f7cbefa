"""Traits of file systems."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from orun.fs import traits
from orun.fs.traits import FilesystemTraits, probe, read_filesystem_type, store_warning
from orun.store import Store


def test_the_traits_of_a_folder_in_memory() -> None:
    shared = Path("/dev/shm")  # noqa: S108
    if read_filesystem_type(shared) != "tmpfs":
        pytest.skip("no tmpfs here")
    before = list(shared.iterdir())
    assert probe(str(shared)) == FilesystemTraits(reflink=False, hardlink=True)
    assert list(shared.iterdir()) == before


def test_two_names_that_pass_for_two_files_are_no_hard_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As sshfs shows them."""
    lstat = os.lstat

    def number_anew(path: str) -> os.stat_result:
        status = list(lstat(path))
        status[1] = hash(path)
        return os.stat_result(status)

    monkeypatch.setattr(os, "lstat", number_anew)
    assert not probe(str(tmp_path)).hardlink
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="file systems are found in /proc")
def test_the_type_of_a_file_system(tmp_path: Path) -> None:
    assert read_filesystem_type("/proc/self/status") == "proc"
    assert read_filesystem_type(tmp_path / "nothing") == ""


@pytest.mark.parametrize(
    ("kind", "lack"),
    [
        ("exfat", "which does not keep the numbers and may not keep the modes of files"),
        ("virtiofs", "whose locks do not reach other machines: let only one machine use it at a time"),
    ],
)
def test_a_store_where_something_is_lacking_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, lack: str
) -> None:
    monkeypatch.setattr(traits, "read_filesystem_type", lambda _path: kind)
    root = tmp_path / "store"
    warning = f"the store {root} is on {kind}, {lack}; a local disk is safer and faster: --store DIR"
    with Store.open(root) as store:
        assert store.drain_notices() == [warning]
    with Store.open(root, read_only=True) as store:
        assert store.drain_notices() == []


@pytest.mark.parametrize("kind", ["", "ext4", "overlay", "nfs4", "fuse.glusterfs"])
def test_other_stores_are_not_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(traits, "read_filesystem_type", lambda _path: kind)
    assert store_warning(tmp_path) == ""
