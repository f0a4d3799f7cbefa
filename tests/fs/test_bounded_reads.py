"""Files that somebody else may have written: only regular files of a bounded size are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orun.fs.bounded_reads import read_bounded

LIMIT = 1 << 20


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * LIMIT)
    (tmp_path / "link").symlink_to(file)
    assert read_bounded(file, LIMIT) == read_bounded(tmp_path / "link", LIMIT) == b"x" * LIMIT
    assert read_bounded("/proc/self/stat", LIMIT).startswith(str(os.getpid()).encode())  # its size is told as 0


@pytest.mark.parametrize(("size", "limit"), [(LIMIT + 1, LIMIT), (20 * 2**30, LIMIT), (1, 0)])
def test_a_larger_one_is_not(tmp_path: Path, size: int, limit: int) -> None:
    file = tmp_path / "file"
    file.touch()
    os.truncate(file, size)  # all of it a hole
    with pytest.raises(OSError, match=f"File too large: more than {limit >> 20} MiB"):
        read_bounded(file, limit)


def test_nothing_but_a_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(OSError, match="Not a regular file"):
            read_bounded(tmp_path / name, LIMIT)
    with pytest.raises(IsADirectoryError):
        read_bounded(tmp_path, LIMIT)
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "none", LIMIT)
