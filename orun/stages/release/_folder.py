"""A folder that takes a release, as `orun.store.object_storage` does a bucket."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from orun.fs.durable import make_folder, new_file, sync_folders, write_all, write_file
from orun.fs.observed_state import is_special

CHUNK = 1 << 20
PART = ".orun-part"  # ends the name of a file that is not whole yet


class Folder:
    """A folder; what lies in it is made by those who publish, and no input of theirs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self, name: str) -> int | None:
        """Return the bytes of a file, or None if it is missing; raise ValueError for a pipe or device."""
        path = self._claimed(name)
        if is_special(path):
            raise ValueError(f"{name} is a pipe or device, not a file")
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None

    def read(self, name: str, limit: int) -> bytes | None:
        """What has that name, or None when nothing has; ValueError when it is larger than `limit` bytes."""
        size = self.size(name)
        if size is not None and size > limit:
            raise ValueError(f"it has {size} bytes, and {limit} are the most")
        return None if size is None else (self.path / name).read_bytes()

    def copy(self, name: str, descriptor: int, size: int) -> bool:
        """Write what has that name to an empty file, which is left at its start; False when nothing has it.

        Raises:
            ValueError: when it has another size.
        """
        actual = self.size(name)
        if actual is not None and actual != size:
            raise ValueError(f"it has {actual} bytes in the place of {size}")
        if actual is not None:
            with (self.path / name).open("rb") as file:
                _copy(file, descriptor)
            os.lseek(descriptor, 0, os.SEEK_SET)
        return actual is not None

    def upload(self, name: str, path: str, _size: int) -> None:
        """Give a file's content that name, whatever had it before; all of it is there afterwards, or nothing."""
        target = self._claimed(name)
        part = target.with_name(f".{target.name}{PART}")
        created = make_folder(str(target.parent))
        part.unlink(missing_ok=True)  # of one who was killed
        with Path(path).open("rb") as file, new_file(str(part), 0o644) as descriptor:
            _copy(file, descriptor)
        part.rename(target)
        sync_folders([str(target.parent), *created])

    def remove(self, name: str) -> None:
        """Remove what has that name, and what was left of giving it that name."""
        target = self._claimed(name)
        for path in (target, target.with_name(f".{target.name}{PART}")):
            path.unlink(missing_ok=True)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Give some bytes a name that nothing has; False when something has it, which stays."""
        make_folder(str(self.path))
        try:
            write_file(str(self._claimed(name)), data)
        except FileExistsError:
            return False
        return True

    def _claimed(self, name: str) -> Path:
        """The path of a name, opened for writing before anything else: what a stage has written is no input of it."""
        path = self.path / name
        with suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
        return path


def _copy(file: BinaryIO, descriptor: int) -> None:
    while chunk := file.read(CHUNK):
        write_all(descriptor, chunk)
