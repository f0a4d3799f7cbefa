"""Session directories: temporary files, a stage's working folder, the lease of a run.

    tmp/<pid>-<random>/lease       locked by its owner while it lives; lists the digests and runs that it relies on
    tmp/<pid>-<random>/<n>-<name>  a file or folder in the making, on the file system of the store

The kernel releases the lock when the owner dies. Then any process may remove the folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from orun.fs.durable import write_all
from orun.fs.locks import Lock
from orun.store.gc_candidates import GcCandidates

_LEASE = "lease"


class Session:
    """Temporary folder of one `Store` object, made when it is first needed.

    There is none where nothing in the store may change.
    """

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        self.read_only = read_only
        self._tmp = str(root / "tmp")
        self._candidates = GcCandidates(root)
        self._begun: tuple[str, Lock] | None = None
        self._count = 0
        self._leased: set[str] = set()

    @property
    def active(self) -> bool:
        """Whether the session has begun: its lease protects the objects that it used since then."""
        return self._begun is not None and self._begun[1].held

    def begin(self) -> tuple[str, Lock]:
        """Return the folder and its lock, made now if needed; OSError in a read-only store."""
        if self.read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), self._tmp)
        while self._begun is None or not self._begun[1].held:  # a forked child does not hold it
            folder = f"{self._tmp}/{os.getpid()}-{os.urandom(6).hex()}"
            os.makedirs(folder)
            lock = Lock(f"{folder}/{_LEASE}", keep=True)
            with contextlib.suppress(FileNotFoundError):  # a sweep has removed the empty folder
                lock.take(wait=True)
                self._begun = (folder, lock)
                self._leased.clear()
        return self._begun

    @property
    def folder(self) -> str:
        """The path of the folder."""
        return self.begin()[0]

    def choose_path(self, name: str) -> str:
        """Return a path in the folder that was never used before."""
        self._count += 1
        return f"{self.folder}/{self._count}-{name}"

    def lease(self, names: Iterable[str]) -> None:
        """Keep garbage collection from removing these objects or runs while this process lives.

        To be called before looking whether they are there. Waits for a collection that is about to remove one of them.
        """
        new = [name for name in names if name not in self._leased]
        if new:
            _, lock = self.begin()
            write_all(lock.descriptor, "".join(f"{name}\n" for name in new).encode("ascii"))
            self._leased.update(new)
            self._candidates.wait_for(new)

    def close(self, remove: Callable[[str], None]) -> None:
        """End the session; `remove` deletes its files."""
        if self.active and self._begun is not None:
            _remove_session(*self._begun, remove)
            self._begun = None
            self._leased.clear()


def sweep(tmp: Path, remove: Callable[[str], None]) -> None:
    """Remove the folders of sessions whose owners are dead; `remove` deletes their files."""
    for folder in _list_folders(tmp):
        lock = Lock(f"{folder}/{_LEASE}", keep=True, create=False)
        try:
            dead = lock.take(wait=False)
        except FileNotFoundError:
            _remove_leaseless(folder, remove)
            continue
        if dead:
            _remove_session(folder, lock, remove)


def read_live_leases(tmp: Path) -> set[str]:
    """Return every digest, and the id of every run, that a live process relies on."""
    names: set[str] = set()
    for folder in _list_folders(tmp):
        try:
            with open(f"{folder}/{_LEASE}", encoding="ascii", errors="replace") as lease:
                names.update(lease.read().splitlines())
        except FileNotFoundError:
            continue  # the session has ended
    return names


def _remove_session(folder: str, lock: Lock, remove: Callable[[str], None]) -> None:
    """Remove the folder of a session; the lease goes last, because a folder without one is anybody's to remove."""
    try:
        for name in os.listdir(folder):
            if name != _LEASE:
                remove(f"{folder}/{name}")
        os.unlink(f"{folder}/{_LEASE}")
    except FileNotFoundError:
        return  # somebody has deleted the store
    finally:
        lock.forget()
    _remove_empty(folder)


def _remove_leaseless(folder: str, remove: Callable[[str], None]) -> None:
    """Remove a folder that has no lease: its owner died while it began or ended, or the power failed.

    Files are put there only under a lease. If there are files and still no lease, nobody owns them.
    """
    if not _remove_empty(folder) and not os.path.lexists(f"{folder}/{_LEASE}"):
        with contextlib.suppress(FileNotFoundError):  # another process is removing it
            remove(folder)


def _remove_empty(folder: str) -> bool:
    """Remove the folder of a session if it is empty; return whether it is gone."""
    try:
        os.rmdir(folder)
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ENOTEMPTY}:
            raise
        return error.errno == errno.ENOENT
    return True


def _list_folders(tmp: Path) -> list[str]:
    try:
        with os.scandir(tmp) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
