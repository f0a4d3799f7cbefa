"""Digests of the user's own files and folders, which are read again only if they may have changed."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from orun.fs.bounded_reads import require_regular
from orun.fs.digests import digest_bytes
from orun.fs.os_errors import to_store_error
from orun.fs.signatures import CLOCK, Signature, read_signature, read_steadily, to_signature
from orun.fs.traits import has_stable_inodes, is_local
from orun.store.index import Index

with contextlib.suppress(ModuleNotFoundError):  # Windows
    import fcntl

_ATTEMPTS = 5
_BYPRODUCTS = frozenset({"__pycache__"})  # Python writes it where it reads code: never an input


class StatCache:
    """Digests of files that others may change at any time.

    Args:
        index: digests by signature.
        store: folder of a store, which does not count as content of a folder around it.
    """

    def __init__(self, index: Index, store: str | Path) -> None:
        self._index = index
        self._store = store
        self._stable: dict[int, bool] = {}  # device -> whether its inode numbers are stable
        self._this_run: dict[tuple[str, Signature], str] = {}  # digests of files without a stable inode number

    def read_signatures(self, path: str | Path) -> dict[str, Signature | None]:
        """Return the signature of a file, or of each file of a folder that counts in `digest_path`, by path.

        Raises:
            StoreError: as `digest_path`.
        """
        if not os.path.isdir(path):
            return {str(path): read_signature(path)}
        try:
            return {name: read_signature(name) for name, is_folder in self._walk(str(path)) if not is_folder}
        except OSError as error:
            raise to_store_error(error, f"read {path}", error.filename or path) from error

    def keeps_inodes(self, path: str | Path) -> bool:
        """Return whether a file there keeps its inode number."""
        return self._has_stable_inodes(path, to_signature(os.stat(path)))

    def is_same(self, path: str | Path, before: Signature | None, after: Signature | None) -> bool:
        """Return whether a file is unchanged by its signatures; inode numbers count only if they are stable."""
        if before == after or before is None or after is None:
            return before == after
        return (before[0], *before[2:]) == (after[0], *after[2:]) and not self._has_stable_inodes(path, after)

    def knows(self, signature: Signature) -> bool:
        """Return whether the digest of a file with this signature is known without reading it."""
        return self._stable.get(signature[0], True) and self._index.get(signature) is not None

    def iter_below(self, folder: str) -> Iterator[str]:
        """Yield the path of a folder and of every folder and file in it that counts in `digest_path`."""
        yield folder
        for path, _ in self._walk(folder):
            yield path

    def digest_file(self, path: str | Path) -> str:
        """Return the BLAKE3 digest of the content of a regular file.

        Raises:
            OSError: if it is missing, not a regular file, cannot be read, or changes while it is read.
        """
        signature = to_signature(require_regular(path))
        stable = self._has_stable_inodes(path, signature)
        known = self._index.get(signature) if stable else self._this_run.get((str(path), signature))
        return known or self._read(path)

    def digest_path(self, path: str | Path) -> str:
        """Return the digest of a file's content, or of the names and contents of a folder; empty if nothing is there.

        Symbolic links are followed; a broken link counts by its name. Empty folders, `__pycache__` and the store do
        not count.

        Raises:
            StoreError: if something cannot be read, or a folder contains itself by a link.
        """
        try:
            return self._digest_folder(str(path)) if os.path.isdir(path) else self.digest_file(path)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            raise to_store_error(error, f"read {path}", error.filename or path) from error

    def _digest_folder(self, path: str) -> str:
        # A digest has a fixed length, or none, and a name holds no zero byte: no two folders have the same text.
        names = sorted(name[len(path) + 1 :] for name, is_folder in self._walk(path) if not is_folder)
        lines = [f"{self._digest_entry(f'{path}/{name}')} {name}\0" for name in names]
        return digest_bytes(b"folder\0" + os.fsencode("".join(lines)))

    def _digest_entry(self, path: str) -> str:
        """Return the digest of a file of a folder; empty for a broken link."""
        try:
            return self.digest_file(path)
        except FileNotFoundError:
            return ""

    def _read(self, path: str | Path) -> str:
        """Read a file until nobody writes to it meanwhile."""
        for _ in range(_ATTEMPTS):
            now, held = time.time_ns(), is_held_for_writing(path)
            reading = read_steadily(path)
            if reading.steady:
                if not held and max(reading.status.st_mtime_ns, reading.status.st_ctime_ns) < now - CLOCK:
                    self._put(path, to_signature(reading.status), reading.digest)
                return reading.digest
        raise OSError(errno.EBUSY, "Changes while it is read", str(path))

    def _put(self, path: str | Path, signature: Signature, digest: str) -> None:
        if self._has_stable_inodes(path, signature):
            self._index.put(signature, digest)
        else:
            self._this_run[str(path), signature] = digest

    def _has_stable_inodes(self, path: str | Path, signature: Signature) -> bool:
        device = signature[0]
        if device not in self._stable:
            self._stable[device] = has_stable_inodes(path)
        return self._stable[device]

    def _walk(self, root: str) -> Iterator[tuple[str, bool]]:
        """Yield the paths of all files and folders below a folder, and whether each is a folder."""
        store = os.path.realpath(self._store)
        pending: list[tuple[str, tuple[str, ...]]] = [(root, (os.path.realpath(root),))]
        while pending:
            folder, ancestors = pending.pop()
            with os.scandir(folder) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}"
                    if not entry.is_dir():
                        yield path, False
                    elif entry.name not in _BYPRODUCTS:
                        real = os.path.realpath(path) if entry.is_symlink() else f"{ancestors[-1]}/{entry.name}"
                        if real in ancestors:
                            raise OSError(errno.ELOOP, f"A link to {real}, which it is in", path)
                        if real != store:
                            yield path, True
                            pending.append((path, (*ancestors, real)))


def is_held_for_writing(path: str | Path) -> bool:
    """Return whether a process has a file open for writing, if Linux tells (it does for one's own files).

    A process that has mapped the file may change it without a trace: only its first write to a page changes the times.
    Network file systems refuse the lease for other reasons: there the answer is not known.
    """
    if sys.platform != "linux":
        return False
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)  # sent when the lease is broken; ignored by default
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN and is_local(path)
    finally:
        os.close(descriptor)
    return False
