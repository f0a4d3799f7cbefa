"""Immutable files by their content: `objects/ab/cdef...`, read-only, trusted only as long as nobody touched them.

An object is stamped with a precise time when it is made. A later write leaves the coarser time of the kernel's clock,
even one within the same tick, so that the signature of an object can be trusted from its first moment on.
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
from orun.fs.os_errors import quoted
from orun.fs.signatures import CLOCK, is_settled, read_steadily, set_stamp, signature_of
from orun.store.index import Index
from orun.store.quarantine import Quarantine
from orun.store.session_directory import Session

SMALL = 1 << 16  # bytes of a file that is read whole to see whether it is an object already
Problem = Literal["", "missing", "damaged"]


class Incoming(Record, frozen=True):
    """A file that is on the disk, stamped and hashed, ready to become an object.

    Attributes:
        path: where it is, on the file system of the store; empty when it is an object already.
        digest: of its content.
        size: in bytes.
        stamp: its mtime in nanoseconds when it was hashed.
    """

    path: str
    digest: str
    size: int
    stamp: int


class Objects:
    """The objects of a store."""

    def __init__(
        self, root: str, index: Index, session: Session, quarantine: Quarantine, flushing: Flushing | None = None
    ) -> None:
        self._root = root
        self._flushing = flushing or Flushing()
        self._index = index
        self._session = session
        self._quarantine = quarantine
        self._unknown: set[str] = set()  # objects that were there and that the disk may not have: nobody has known them

    @cached_property
    def _device(self) -> int:
        return os.stat(self._root).st_dev

    def path(self, digest: str) -> str:
        """Where the object is, if it is there."""
        return f"{self._root}/{digest[:2]}/{digest[2:]}"

    def problem(self, digest: str, *, read: bool = False, quarantine: bool = True) -> Problem:
        """What is wrong with an object.

        Args:
            digest: its digest.
            read: whether to read it even when nobody has touched it.
            quarantine: whether a damaged one is to be in quarantine when this returns.
        """
        if self._session.active:
            self._session.lease((digest,))
        path = self.path(digest)
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return "missing"
        if not read and self._index.get(signature_of(status)) == digest:
            return ""
        if self._is_intact(path, status, digest):
            self._unknown.add(digest)
            return ""
        if quarantine:
            self._quarantine.move(path, f"object {digest} was damaged", name=digest, seen=status)
        return "damaged"

    def read(self, digest: str) -> bytes:
        """The content of an object, checked.

        Raises:
            StoreError: when it is missing or damaged.
        """
        data = self.find(digest)
        if data is None:
            raise StoreError(
                f"object {digest} is not in the store",
                why=f"{self.path(digest)} is missing or was damaged",
                hint="Run the pipeline again: the stage that made it will be built again",
            )
        return data

    def find(self, digest: str) -> bytes | None:
        """The content of an object, checked, or None when it is missing or was damaged."""
        if self._session.active:
            self._session.lease((digest,))
        path = self.path(digest)
        try:
            with open(path, "rb", buffering=0) as file:
                data, status = file.readall(), os.fstat(file.fileno())
        except (FileNotFoundError, NotADirectoryError):
            return None
        if digest_bytes(data) == digest:
            return data
        self._quarantine.move(path, f"object {digest} was damaged", name=digest, seen=status)
        return None

    def all(self) -> Iterator[tuple[str, os.stat_result]]:
        """The digest and state of every object, by their names alone."""
        with os.scandir(self._root) as folders:
            names = sorted(folder.name for folder in folders if folder.is_dir(follow_symlinks=False))
        for name in names:
            with os.scandir(f"{self._root}/{name}") as files:
                for file in files:
                    if is_digest(name + file.name):
                        yield name + file.name, file.stat(follow_symlinks=False)

    def remove(self, digest: str) -> None:
        """Remove an object that nobody needs, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(digest))

    def lease(self, digests: Iterable[str]) -> None:
        """Keep a collection from removing these objects while this process lives."""
        self._session.lease(digests)

    def from_bytes(self, data: bytes) -> Incoming:
        """Make an object of bytes; nothing is written when there is one."""
        digest = digest_bytes(data)
        self._session.lease((digest,))  # before looking, also where the session has not begun
        if not self.problem(digest):
            return Incoming("", digest, len(data), 0)
        path = self._session.path("bytes")
        write_file(path, data, READ_ONLY, sync=self._flushing.at_once)
        return Incoming(path, digest, len(data), set_stamp(path))

    def from_copy(self, source: str) -> Incoming:
        """Make an object of a file that stays as it is."""
        if os.stat(source).st_size <= SMALL:
            with open(source, "rb", buffering=0) as file:
                return self.from_bytes(file.readall())
        path = self._session.path("copy")
        digest = copy_file(source, path, READ_ONLY, sync=self._flushing.at_once)
        return Incoming(path, digest, os.lstat(path).st_size, set_stamp(path))

    def from_shared(self, source: str) -> Incoming:
        """Make an object of a file that others may write to: copied, and refused when somebody did meanwhile."""
        before = os.stat(source)
        incoming = self.from_copy(source)
        changed = signature_of(os.stat(source))[:4] != signature_of(before)[:4]  # its ctime changes with its links
        fresh = before.st_mtime_ns > time.time_ns() - CLOCK  # written to once more, it may keep its time
        if changed or (fresh and read_steadily(source).digest != incoming.digest):
            raise _written_to(source, "it has another name, too, or another owner", "Run again when that rests")
        return incoming

    def from_output(self, source: str) -> Incoming:
        """Make an object of a file that nobody needs any more: moved, not copied, if there is no other way to it."""
        status = os.lstat(source)
        if status.st_nlink > 1 or status.st_uid != os.geteuid() or status.st_dev != self._device:
            return self.from_shared(source)
        set_mode(source, READ_ONLY)
        stamp = set_stamp(source)
        reading = read_steadily(source, sync=self._flushing.at_once)
        if not reading.steady or reading.status.st_mtime_ns != stamp:
            hint = f"End that process before the stage ends; see which it is: fuser -v {quoted(source)}"
            raise _written_to(source, "a process that the stage started is still running", hint)
        return Incoming(source, reading.digest, reading.status.st_size, stamp)

    def commit(self, incoming: Sequence[Incoming]) -> None:
        """Put objects in their places; they are there for good when this returns, or the block `together`."""
        self._session.lease([one.digest for one in incoming])
        folders = {os.path.dirname(self.path(one.digest)) for one in incoming}
        folders.update(*(make_folder(folder) for folder in list(folders)))
        for one in incoming:
            self._install(one)
            if one.digest in self._unknown:  # of a process that may have died before it flushed it
                self._flushing.existing(self.path(one.digest))
                self._unknown.discard(one.digest)
        self._flushing.folders(folders)
        self._index.settle()

    def _install(self, incoming: Incoming) -> None:
        if not incoming.path:
            return
        if not self.problem(incoming.digest):  # not renamed over: others have linked to the one that is there
            os.unlink(incoming.path)
            return
        path = self.path(incoming.digest)
        os.rename(incoming.path, path)
        self._flushing.file(path)
        status = os.lstat(path)
        if (status.st_size, status.st_mtime_ns) == (incoming.size, incoming.stamp) and is_settled(status):
            self._index.put(signature_of(status), incoming.digest)

    def _is_intact(self, path: str, status: os.stat_result, digest: str) -> bool:
        """Read the object whole; put right who may write to it."""
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
            self._index.put(signature_of(reading.status), digest)
        return reading.digest == digest


def _written_to(source: str, why: str, hint: str) -> StoreError:
    return StoreError(f"{source} was written to while it was stored", why=why, hint=hint)
