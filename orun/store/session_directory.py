"""Session directories: temporary files, a stage's working folder, the lease of a run.

    tmp/<pid>-<random>/lease       locked by its owner while it lives; says which system that is on, and then lists the
                                   digests and runs that it relies on
    tmp/<pid>-<random>/<n>-<name>  a file or folder in the making, on the file system of the store

The kernel releases the lock when the owner dies, and then the folder is anybody's to remove. Two kernels may share a
folder and not its locks, as a host and a virtual machine do, or those that mount NFS without: what another system has
begun stays for a day, and goes as a whole before anything in it does, so that no half of it passes for an output.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO

from orun.fs.digests import digest_bytes
from orun.fs.durable import write_all
from orun.fs.locks import Lock
from orun.store.gc_candidates import GcCandidates

BOOT = Path("/proc/sys/kernel/random/boot_id")
_LEASE = "lease"
_ON = "on "  # begins the line of a lease that says where its owner runs
_PATIENCE = 86400.0  # seconds since its last word that another system's session is taken to live
_SHORT = 8  # hexadecimal digits that tell kernels, and names of machines, apart


class Session:
    """The temporary folder of one `Store` object, made when it is first needed.

    Args:
        root: the store's folder.
        read_only: whether there is none, as nothing of the store may change.

    Attributes:
        read_only: the same.
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
        """Whether it has begun: from then on its lease protects what the store is asked for."""
        return self._begun is not None and self._begun[1].held

    def begin(self) -> tuple[str, Lock]:
        """Its folder and the lock on it, made now if they were not; OSError if the store is only to be read."""
        if self.read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), self._tmp)
        while self._begun is None or not self._begun[1].held:  # a forked child does not hold it
            folder = f"{self._tmp}/{os.getpid()}-{os.urandom(6).hex()}"
            os.makedirs(folder)
            lock = Lock(f"{folder}/{_LEASE}", keep=True)
            with contextlib.suppress(FileNotFoundError):  # a sweep was quicker and has removed the empty folder
                lock.take(wait=True)
                write_all(lock.descriptor, f"{_ON}{system()}\n".encode("ascii"))
                self._begun = (folder, lock)
                self._leased.clear()
        return self._begun

    @property
    def keeps_modes(self) -> bool:
        """Whether its file system keeps which files are executable: FAT, and SMB most often, call all of them so."""
        return not os.fstat(self.begin()[1].descriptor).st_mode & stat.S_IXUSR  # of a lease, which nobody runs

    @property
    def folder(self) -> str:
        """Its path."""
        return self.begin()[0]

    def path(self, name: str) -> str:
        """A path in it that was never used before."""
        self._count += 1
        return f"{self.folder}/{self._count}-{name}"

    def lease(self, digests: Iterable[str]) -> None:
        """Keep `gc` from removing these objects, or the folders of runs of these ids, while this process lives.

        To be called before looking whether they are there. Waits for the end of a collection that is about to remove
        one of them.
        """
        new = [digest for digest in digests if digest not in self._leased]
        if new:
            _, lock = self.begin()
            write_all(lock.descriptor, "".join(f"{digest}\n" for digest in new).encode("ascii"))
            self._leased.update(new)
            self._candidates.wait_for(new)

    def close(self, remove: Callable[[str], None]) -> None:
        """End it; `remove` deletes what it holds."""
        if self.active and self._begun is not None:
            _remove_session(*self._begun, remove)
            self._begun = None
            self._leased.clear()


@functools.cache
def system() -> str:
    """What tells the kernel that runs now from others, and after that the name of this machine, in a few digits."""
    try:
        kernel = digest_bytes(BOOT.read_bytes())[:_SHORT]
    except OSError:  # not Linux
        kernel = "0" * _SHORT
    return kernel + digest_bytes(os.uname().nodename.encode())[:_SHORT]


def _open_lease(folder: str) -> TextIO:
    """Open it to be read, whatever a disk has made of it: its owner may be dead."""
    return open(f"{folder}/{_LEASE}", encoding="ascii", errors="replace")


def _is_elsewhere(folder: str) -> bool:
    """Whether a session may live under another kernel, which is not of this machine before it was booted anew."""
    try:
        with _open_lease(folder) as lease:
            owner, spoke = lease.readline().strip().removeprefix(_ON), os.fstat(lease.fileno()).st_mtime
    except FileNotFoundError:
        return False
    ours = len(owner) != 2 * _SHORT or owner[:_SHORT] == system()[:_SHORT] or owner[_SHORT:] == system()[_SHORT:]
    return not ours and spoke > time.time() - _PATIENCE


def sweep(tmp: Path, remove: Callable[[str], None]) -> None:
    """Remove the folders of sessions whose owner is dead; `remove` deletes what they hold."""
    for folder in _folders(tmp):
        if _is_elsewhere(folder):
            continue
        lock = Lock(f"{folder}/{_LEASE}", keep=True, create=False)
        try:
            dead = lock.take(wait=False)
        except FileNotFoundError:
            _remove_leaseless(folder, remove)
            continue
        if dead:
            _remove_session(_taken(folder), lock, remove)


def live_leases(tmp: Path) -> set[str]:
    """Every digest, and the id of every run, that a live process relies on."""
    found: set[str] = set()
    for folder in _folders(tmp):
        try:
            with _open_lease(folder) as lease:
                found.update(line for line in lease.read().splitlines() if not line.startswith(_ON))
        except FileNotFoundError:
            continue  # ended meanwhile
    return found


def _taken(folder: str) -> str:
    """Where the folder of a session is now, of which an owner who lives after all finds nothing any more."""
    taken = f"{os.path.dirname(folder)}/{os.getpid()}-{os.urandom(6).hex()}"
    try:
        os.rename(folder, taken)
    except OSError as error:
        if error.errno not in {errno.EXDEV, errno.ENOENT}:  # overlayfs does not move what came with an image
            raise
        return folder
    return taken


def _remove_session(folder: str, lock: Lock, remove: Callable[[str], None]) -> None:
    """The lease goes last, without which a folder is anybody's to remove; NFS and FUSE keep one in it that is open."""
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
    """Remove a folder whose owner died before it had a lease or when it had none any more, or that lost it with power.

    Whatever is in a folder was put there under a lease: if there is something, and no lease even then, nobody owns it.
    """
    if not _remove_empty(folder) and not os.path.lexists(f"{folder}/{_LEASE}"):
        with contextlib.suppress(FileNotFoundError):  # another process is removing it
            remove(folder)


def _remove_empty(folder: str) -> bool:
    """Remove the folder of a session unless another process is giving it a lease; whether it is gone."""
    try:
        os.rmdir(folder)
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ENOTEMPTY}:
            raise
        return error.errno == errno.ENOENT
    return True


def _folders(tmp: Path) -> list[str]:
    try:
        with os.scandir(tmp) as found:
            return [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
