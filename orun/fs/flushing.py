"""When what is stored is made to reach the disk: each file as it is written, or those of a block in one go.

The first fsync of several files commits the names and sizes of all of them, so that the others cost little more than
their content. One that the disk does not take is lost, whatever a later fsync says: the kernel shows its content until
it needs the memory, and then what the disk has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from orun.fs.durable import sync_folders


class Flushing:
    """Takes note of files and folders in a block `together`, at the end of which the disk has them."""

    def __init__(self) -> None:
        self.at_once = True
        self._files: dict[str, bool] = {}  # and whether it is to go when the disk does not take it
        self._folders: set[str] = set()

    def file(self, path: str, *, sealed: bool = False) -> None:
        """A file has its place now; it has been flushed if that is to be done at once.

        It is removed when the disk does not take it, unless it is `sealed`: then it shows by itself what became of it.
        """
        if not self.at_once:
            self._files[path] = not sealed

    def again(self, path: str) -> None:
        """A file has been in its place, and the disk may not have it; it stays, as others may rest on it."""
        if self.at_once:
            _flush(path, lost=False)
        else:
            self._files[path] = False

    def folders(self, folders: Iterable[str]) -> None:
        """Names in these folders are new."""
        if self.at_once:
            sync_folders(folders)
        else:
            self._folders.update(folders)

    @contextmanager
    def together(self) -> Iterator[None]:
        """A block at the end of which everything that was stored in it is on the disk."""
        self.at_once = False
        try:
            yield
        finally:
            self.at_once = True
            files, folders = dict(self._files), set(self._folders)
            self._files.clear()
            self._folders.clear()
            for path, lost in files.items():
                _flush(path, lost=lost)
            sync_folders(folders)


def _flush(path: str, *, lost: bool) -> None:
    """Wait until the disk has a file; if it does not take it and all is `lost` then, the file is removed."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if lost:
            os.unlink(path)
        raise
    finally:
        os.close(descriptor)
