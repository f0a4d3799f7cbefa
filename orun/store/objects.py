"""Objects: immutable files by content, `objects/ab/cdef...`, read-only, trusted until somebody touches them.

An object is stamped with a precise time when it is made. A later write sets the coarser time of the kernel's clock,
even within the same tick. So the signature of an object can be trusted at once.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal

from orun.core.serialization import Record
from orun.errors import StoreError
from orun.fs.copying import copy_file
from orun.fs.digests import digest_bytes, is_digest
from orun.fs.durable import READ_ONLY, make_folder, set_mode, write_file
from orun.fs.flushing import Flushing
from orun.fs.os_errors import quote
from orun.fs.signatures import CLOCK, is_settled, read_steadily, set_stamp, to_signature
from orun.store.index import Index
from orun.store.quarantine import Quarantine
from orun.store.session_directory import Session

SMALL = 1 << 16  # bytes of a file that is read into memory to see whether it is an object already
Problem = Literal["", "missing", "damaged"]


class Incoming(Record, frozen=True):
    """A file on the disk, stamped and hashed, ready to become an object."""

    path: str  # on the file system of the store; empty if it is an object already
    digest: str  # of its content
    size: int  # in bytes
    stamp: int  # its mtime in nanoseconds when it was hashed


class Objects:
    """The objects of a store."""

    def __init__(self, root: str, index: Index, session: Session, quarantine: Quarantine, flushing: Flushing) -> None:
        self._root = root
        self._flushing = flushing
        self._index = index
        self._session = session
        self._quarantine = quarantine
        self._unflushed: set[str] = set()  # objects of other processes that may not be on the disk

    @cached_property
    def _device(self) -> int:
        return os.stat(self._root).st_dev

    def locate(self, digest: str) -> str:
        """Return the path of an object, whether it exists or not."""
        return f"{self._root}/{digest[:2]}/{digest[2:]}"

    def find_problem(self, digest: str, *, read: bool = False, quarantine: bool = True) -> Problem:
        """Return the problem of an object; empty if it is intact.

        With `read` it is read even if nobody has touched it. With `quarantine` it is moved there if it is damaged.
        """
        if self._session.active:
            self._session.lease((digest,))
        path = self.locate(digest)
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return "missing"
        if not read and self._index.get(to_signature(status)) == digest:
            return ""
        if self._is_intact(path, status, digest):
            self._unflushed.add(digest)
            return ""
        if quarantine:
            self._quarantine.move(path, f"object {digest} was damaged", name=digest, seen=status)
        return "damaged"

    def read(self, digest: str) -> bytes:
        """Return the content of an object, checked.

        Raises:
            StoreError: if it is missing or damaged.
        """
        data = self.find(digest)
        if data is None:
            raise StoreError(
                f"object {digest} is not in the store",
                why=f"{self.locate(digest)} is missing or was damaged",
                hint="Run the pipeline again: the stage that made it will be built again",
            )
        return data

    def find(self, digest: str) -> bytes | None:
        """Return the content of an object, checked, or None if it is missing or was damaged."""
        if self._session.active:
            self._session.lease((digest,))
        path = self.locate(digest)
        try:
            with open(path, "rb", buffering=0) as file:
                data, status = file.readall(), os.fstat(file.fileno())
        except (FileNotFoundError, NotADirectoryError):
            return None
        if digest_bytes(data) == digest:
            return data
        self._quarantine.move(path, f"object {digest} was damaged", name=digest, seen=status)
        return None

    def iter_all(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield digest and file state of every object, without reading any."""
        with os.scandir(self._root) as folders:
            names = sorted(folder.name for folder in folders if folder.is_dir(follow_symlinks=False))
        for name in names:
            with os.scandir(f"{self._root}/{name}") as files:
                for file in files:
                    if is_digest(name + file.name):
                        yield name + file.name, file.stat(follow_symlinks=False)

    def remove(self, digest: str) -> None:
        """Remove an object if it exists."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.locate(digest))

    def lease(self, digests: Iterable[str]) -> None:
        """Keep garbage collection from removing these objects while this process lives."""
        self._session.lease(digests)

    def from_bytes(self, data: bytes) -> Incoming:
        """Prepare an object with this content. Writes nothing if it exists."""
        digest = digest_bytes(data)
        self._session.lease((digest,))  # before looking, even if the session has not begun
        if not self.find_problem(digest):
            return Incoming("", digest, len(data), 0)
        path = self._session.choose_path("bytes")
        write_file(path, data, READ_ONLY, sync=self._flushing.at_once)
        return Incoming(path, digest, len(data), set_stamp(path))

    def from_copy(self, source: str) -> Incoming:
        """Prepare an object from a file, which stays."""
        if os.stat(source).st_size <= SMALL:
            with open(source, "rb", buffering=0) as file:
                return self.from_bytes(file.readall())
        path = self._session.choose_path("copy")
        digest = copy_file(source, path, READ_ONLY, sync=self._flushing.at_once)
        return Incoming(path, digest, os.lstat(path).st_size, set_stamp(path))

    def from_shared(self, source: str) -> Incoming:
        """Prepare an object from a copy of a file that others may write to; StoreError if they do meanwhile."""
        before = os.stat(source)
        incoming = self.from_copy(source)
        changed = to_signature(os.stat(source))[:4] != to_signature(before)[:4]  # the ctime changes with the links
        recent = before.st_mtime_ns > time.time_ns() - CLOCK  # another write may keep the time
        if changed or (recent and read_steadily(source).digest != incoming.digest):
            hint = "Run again when no other process writes to it"
            raise _build_changed_error(source, "it has another name, too, or another owner", hint)
        return incoming

    def from_output(self, source: str) -> Incoming:
        """Prepare an object from a file that nobody needs any more: moved if nobody else can reach it, else copied."""
        status = os.lstat(source)
        if status.st_nlink > 1 or status.st_uid != os.geteuid() or status.st_dev != self._device:
            return self.from_shared(source)
        set_mode(source, READ_ONLY)
        stamp = set_stamp(source)
        reading = read_steadily(source, sync=self._flushing.at_once)
        if not reading.steady or reading.status.st_mtime_ns != stamp:
            hint = f"End that process before the stage ends; see which it is: fuser -v {quote(source)}"
            raise _build_changed_error(source, "a process that the stage started is still running", hint)
        return Incoming(source, reading.digest, reading.status.st_size, stamp)

    def commit(self, incoming: Sequence[Incoming]) -> None:
        """Install prepared objects: on the disk when this returns, or at the end of a block `flush_together`."""
        self._session.lease([file.digest for file in incoming])
        folders = {os.path.dirname(self.locate(file.digest)) for file in incoming}
        folders.update(*(make_folder(folder) for folder in list(folders)))
        for file in incoming:
            self._install(file)
            if file.digest in self._unflushed:  # its process may have died before it flushed it
                self._flushing.flush_existing(self.locate(file.digest))
                self._unflushed.discard(file.digest)
        self._flushing.flush_folders(folders)
        self._index.settle()

    def _install(self, incoming: Incoming) -> None:
        if not incoming.path:
            return
        if not self.find_problem(incoming.digest):  # not replaced: others have linked to it
            os.unlink(incoming.path)
            return
        path = self.locate(incoming.digest)
        os.rename(incoming.path, path)
        self._flushing.note_file(path)
        status = os.lstat(path)
        if (status.st_size, status.st_mtime_ns) == (incoming.size, incoming.stamp) and is_settled(status):
            self._index.put(to_signature(status), incoming.digest)

    def _is_intact(self, path: str, status: os.stat_result, digest: str) -> bool:
        """Read an object and return whether it has its digest; correct its mode."""
        if not stat.S_ISREG(status.st_mode):
            return False
        if stat.S_IMODE(status.st_mode) != READ_ONLY and not self._session.read_only:
            set_mode(path, READ_ONLY)
        try:
            reading = read_steadily(path)
        except OSError as error:
            if error.errno == errno.EIO:
                return False
            raise
        if reading.digest == digest and reading.steady and is_settled(reading.status):
            self._index.put(to_signature(reading.status), digest)
        return reading.digest == digest


def _build_changed_error(source: str, why: str, hint: str) -> StoreError:
    return StoreError(f"{source} was written to while it was stored", why=why, hint=hint)
