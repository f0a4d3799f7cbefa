"""Flushing of stored files to the disk: each as it is written, or all of a block at once.

The first fsync of several files commits the names and sizes of all, so the others cost little more than their content.
A file whose fsync fails is lost, whatever a later fsync says: the kernel shows its content only until it needs the
memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from orun.fs.durable import sync_folders


class Flushing:
    """Notes files and folders during a block `flush_together`, and flushes them at its end."""

    def __init__(self) -> None:
        self.at_once = True
        self._files: dict[str, bool] = {}  # path -> whether to remove the file if it cannot be flushed
        self._folders: set[str] = set()

    def note_file(self, path: str, *, checksummed: bool = False) -> None:
        """Note a new file; outside of a block its writer has flushed it already.

        It is removed if it cannot be flushed, unless it is `checksummed` and so shows damage itself.
        """
        if not self.at_once:
            self._files[path] = not checksummed

    def flush_existing(self, path: str) -> None:
        """Flush a file that was there but may not be on the disk. It is never removed: others may rely on it."""
        if self.at_once:
            _flush(path, remove=False)
        else:
            self._files[path] = False

    def flush_folders(self, folders: Iterable[str]) -> None:
        """Flush new names in folders."""
        if self.at_once:
            sync_folders(folders)
        else:
            self._folders.update(folders)

    @contextmanager
    def flush_together(self) -> Iterator[None]:
        """Flush everything that is stored during a block at its end."""
        self.at_once = False
        try:
            yield
        finally:
            self.at_once = True
            files, folders = dict(self._files), set(self._folders)
            self._files.clear()
            self._folders.clear()
            for path, remove in files.items():
                _flush(path, remove=remove)
            sync_folders(folders)


def _flush(path: str, *, remove: bool) -> None:
    """Flush a file; if that fails, remove it if wanted."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if remove:
            os.unlink(path)
        raise
    finally:
        os.close(descriptor)
