"""Folder that takes a release, with the methods of `orun.store.object_storage.Bucket`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from orun.fs.bounded_reads import is_special
from orun.fs.durable import create_file, make_folder, sync_folders, write_all, write_file

CHUNK = 1 << 20
PART = ".orun-part"  # suffix of a file that is not complete yet


class Folder:
    """Folder of releases. Its files are no implicit dependencies of the stage that publishes there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read_size(self, name: str) -> int | None:
        """Return the bytes of a file, or None if it is missing; raise ValueError for a pipe or device."""
        path = self._claim(name)
        if is_special(path):
            raise ValueError(f"{name} is a pipe or device, not a file")
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None

    def read(self, name: str, limit: int) -> bytes | None:
        """Return the content of a file, or None if it is missing; raise ValueError if it has over `limit` bytes."""
        size = self.read_size(name)
        if size is not None and size > limit:
            raise ValueError(f"it has {size} bytes, and at most {limit} are allowed")
        return None if size is None else (self.path / name).read_bytes()

    def copy(self, name: str, descriptor: int, size: int) -> bool:
        """Write the content of a file to an empty one and seek to its start; return False if the file is missing.

        Raises:
            ValueError: if it does not have `size` bytes.
        """
        actual = self.read_size(name)
        if actual is not None and actual != size:
            raise ValueError(f"it has {actual} bytes instead of {size}")
        if actual is not None:
            with (self.path / name).open("rb") as file:
                _copy(file, descriptor)
            os.lseek(descriptor, 0, os.SEEK_SET)
        return actual is not None

    def upload(self, name: str, path: str, _size: int) -> None:
        """Write a file, atomically, in place of a file of that name."""
        target = self._claim(name)
        part = target.with_name(f".{target.name}{PART}")
        created = make_folder(str(target.parent))
        part.unlink(missing_ok=True)  # left by a killed process
        with Path(path).open("rb") as file, create_file(str(part), 0o644) as descriptor:
            _copy(file, descriptor)
        part.rename(target)
        sync_folders([str(target.parent), *created])

    def remove(self, name: str) -> None:
        """Remove a file, if it exists, and the rest of its interrupted upload."""
        target = self._claim(name)
        for path in (target, target.with_name(f".{target.name}{PART}")):
            path.unlink(missing_ok=True)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a file unless the name is in use; return whether it was written."""
        make_folder(str(self.path))
        try:
            write_file(str(self._claim(name)), data)
        except FileExistsError:
            return False
        return True

    def _claim(self, name: str) -> Path:
        """Return the path of a file, opened for writing once: tracing takes files that a stage writes for no input."""
        path = self.path / name
        with suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
        return path


def _copy(file: BinaryIO, descriptor: int) -> None:
    while chunk := file.read(CHUNK):
        write_all(descriptor, chunk)
