"""Digests of the user's own files and folders, read again only when they may have changed."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

from orun.fs.digests import digest_bytes
from orun.fs.observed_state import require_regular
from orun.fs.os_errors import to_store_error
from orun.fs.signatures import CLOCK, Signature, is_held_for_writing, keeps_inodes, read_steadily, signature_of
from orun.store.index import Index

__all__ = ["Signature", "StatCache"]

_ATTEMPTS = 5
_BYPRODUCTS = frozenset({"__pycache__"})  # Python writes it where it reads code: never an input


class StatCache:
    """Digests by content of files that others may change at any time.

    Args:
        index: what is known of files.
        store: the folder of a store, which is no content of a folder around it.
    """

    def __init__(self, index: Index, store: str | Path) -> None:
        self._index = index
        self._store = store
        self._lasting: dict[int, bool] = {}  # device -> whether a signature means the same file to other processes
        self._passing: dict[tuple[str, Signature], str] = {}  # digests of files of which it is not

    def signature(self, path: str | Path) -> Signature | None:
        """Device, inode, size, mtime and ctime (ns) of what `path` leads to; None when that is nothing to be seen."""
        try:
            return signature_of(os.stat(path))
        except OSError:  # nothing there, a name that no file can have, or a folder that nobody may enter
            return None

    def signatures(self, path: str | Path) -> dict[str, Signature | None]:
        """The signature of a file, or of each file of a folder that counts in `digest_path`, by path.

        Raises:
            StoreError: as `digest_path`.
        """
        if not os.path.isdir(path):
            return {str(path): self.signature(path)}
        try:
            return {name: self.signature(name) for name, is_folder in self._walk(str(path)) if not is_folder}
        except OSError as error:
            raise to_store_error(error, f"read {path}", error.filename or path) from error

    def keeps_inodes(self, path: str | Path) -> bool:
        """Whether a file there has the same number whenever its file system is mounted, or this host looks at it."""
        return self._is_lasting(path, signature_of(os.stat(path)))

    def is_same(self, path: str | Path, seen: Signature | None, now: Signature | None) -> bool:
        """Whether a file is as it was seen: by its signature, without its number where those pass."""
        if seen == now or seen is None or now is None:
            return seen == now
        return (seen[0], *seen[2:]) == (now[0], *now[2:]) and not self._is_lasting(path, now)

    def knows(self, signature: Signature) -> bool:
        """Whether a file with this signature need not be read again to know its digest."""
        return self._lasting.get(signature[0], True) and self._index.get(signature) is not None

    def below(self, folder: str) -> Iterator[str]:
        """The path of a folder and of every folder and file in it that counts in `digest_path`; OSError as there."""
        yield folder
        for path, _ in self._walk(folder):
            yield path

    def digest_file(self, path: str | Path) -> str:
        """The BLAKE3 digest of the content of a regular file.

        Raises:
            OSError: when it is not there, is something else, cannot be read, or is written to all the time.
        """
        signature = signature_of(require_regular(path))
        lasting = self._is_lasting(path, signature)
        known = self._index.get(signature) if lasting else self._passing.get((str(path), signature))
        return known or self._read(path)

    def digest_path(self, path: str | Path) -> str:
        """The digest of a file's content, or of the names and contents of a folder; empty when nothing is there.

        Symbolic links are followed; of one that leads nowhere the name counts. Empty folders, `__pycache__` and the
        store do not count.

        Raises:
            StoreError: when something cannot be read, or a folder contains itself by a link.
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
        """The digest of a file of a folder; empty for a link that leads nowhere."""
        try:
            return self.digest_file(path)
        except FileNotFoundError:
            return ""

    def _read(self, path: str | Path) -> str:
        """Read the file until nobody writes to it meanwhile."""
        for _ in range(_ATTEMPTS):
            now, held = time.time_ns(), is_held_for_writing(path)
            reading = read_steadily(path)
            if reading.steady:
                if not held and max(reading.status.st_mtime_ns, reading.status.st_ctime_ns) < now - CLOCK:
                    self._put(path, signature_of(reading.status), reading.digest)
                return reading.digest
        raise OSError(errno.EBUSY, "Changes while it is read", str(path))

    def _put(self, path: str | Path, signature: Signature, digest: str) -> None:
        if self._is_lasting(path, signature):
            self._index.put(signature, digest)
        else:
            self._passing[str(path), signature] = digest

    def _is_lasting(self, path: str | Path, signature: Signature) -> bool:
        device = signature[0]
        if device not in self._lasting:
            self._lasting[device] = keeps_inodes(path)
        return self._lasting[device]

    def _walk(self, root: str) -> Iterator[tuple[str, bool]]:
        """The paths of all files and folders below a folder, and whether each is a folder."""
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
