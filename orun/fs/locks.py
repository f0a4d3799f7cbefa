"""Locks between processes, held by the kernel, so that they end with their owner.

A process holds the lock of a key while it makes the result of that key. For the lock of the machine see
`machine_locks.py`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from orun.fs.durable import set_mode
from orun.fs.os_errors import convert_os_errors

with contextlib.suppress(ModuleNotFoundError):  # Windows
    import fcntl

STALE_SECONDS = 60.0  # for which a host may not know that another one removed a file: NFS's `acdirmax`
RETRY_SECONDS = 0.05


class Lock:
    """Exclusive or shared lock on a file.

    Args:
        path: of the file, in an existing folder.
        exclusive: nobody else may hold it.
        keep: leave the file when the lock is released. A shared lock must, unless it only serves to look for a dead
            owner.
        create: create the file if it does not exist.
    """

    def __init__(self, path: str | Path, *, exclusive: bool = True, keep: bool = False, create: bool = True) -> None:
        self.path = str(path)
        self.exclusive = exclusive
        self.keep = keep
        self.create = create
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    @property
    def descriptor(self) -> int:
        """The open file of a held lock; ValueError if it is not held."""
        if self._descriptor is None:
            raise ValueError(f"the lock {self.path} is not held")
        return self._descriptor

    def try_acquire(self) -> bool:
        """Take the lock if it is free; return whether it is held.

        Raises:
            StoreError: if the file cannot be opened.
        """
        with convert_os_errors("take a lock", self.path):
            return self.take(wait=False)

    def acquire(self, waiting: Callable[[], None] = lambda: None) -> None:
        """Take the lock; call `waiting` once before waiting for another holder. Signals interrupt the waiting.

        Raises:
            StoreError: if the file cannot be opened.
        """
        if not self.try_acquire():
            waiting()
            with convert_os_errors("take a lock", self.path):
                self.take(wait=True)

    def release(self) -> None:
        """Release the lock if it is held. A file that cannot be removed is left to `remove_free_locks`."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            if not self.keep and _still_names(self.path, self._descriptor):
                os.unlink(self.path)
        self.forget()

    def forget(self) -> None:
        """Close the file without removing it."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None  # closed once, even if `close` fails
            _held.discard(self)
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def take(self, *, wait: bool) -> bool:
        """Take the lock as `acquire` or `try_acquire` do; raises OSError."""
        operation = (fcntl.LOCK_EX if self.exclusive else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB)
        start = time.monotonic()
        while True:
            try:
                return self._take(operation)
            except OSError as error:  # another host has removed the file
                if error.errno != errno.ESTALE or time.monotonic() > start + STALE_SECONDS:
                    raise
                time.sleep(RETRY_SECONDS)

    def _take(self, operation: int) -> bool:
        while not self.held:
            descriptor = _open(self.path, create=self.create)
            try:
                fcntl.flock(descriptor, operation)
                removed = not _still_names(self.path, descriptor)
            except BlockingIOError:
                os.close(descriptor)
                return False
            except BaseException:
                os.close(descriptor)
                raise
            if removed:
                os.close(descriptor)  # its last owner removed the file: this lock excludes nobody
            else:
                self._descriptor = descriptor
                _held.add(self)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __del__(self) -> None:
        self.forget()


def remove_free_locks(folder: Path) -> None:
    """Remove the files of exclusive locks whose owners died."""
    for name in os.listdir(folder):
        lock = Lock(folder / name, create=False)
        with contextlib.suppress(FileNotFoundError):  # released meanwhile
            if lock.take(wait=False):
                lock.release()


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _open(path: str, *, create: bool) -> int:
    """Open a lock file that may belong to another user."""
    flags = os.O_NOFOLLOW
    while True:
        try:
            return os.open(path, flags | os.O_RDWR)
        except PermissionError:
            return os.open(path, flags | os.O_RDONLY)  # another user's: enough for a lock
        except FileNotFoundError:
            if not create:
                raise
        try:
            descriptor = os.open(path, flags | os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            continue  # another process has created it
        set_mode(descriptor, 0o644)  # whatever the umask: others must be able to open it
        return descriptor


def _still_names(path: str, descriptor: int) -> bool:
    """Return whether a path still names an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _drop_in_child() -> None:
    """Close the locks in a forked child, which would keep them after the death of their owner."""
    for lock in list(_held):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_in_child)
