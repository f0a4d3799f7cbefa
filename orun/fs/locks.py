"""Locks between processes, held by the kernel, so that they end with their owner.

A process holds the lock of a key while it makes the result of that key. All orun processes of a machine share the
machine lock: stages hold it shared, a measurement holds it exclusively. The process of a measurement describes itself
in a claim file, which it keeps locked.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from orun.core.serialization import Record, decode, encode, from_json, replace, to_json
from orun.errors import StoreError
from orun.fs.durable import set_mode
from orun.fs.os_errors import convert_os_errors

with contextlib.suppress(ModuleNotFoundError):  # Windows
    import fcntl

STALE_SECONDS = 60.0  # for which a host may not know that another one removed a file: NFS's `acdirmax`
RETRY_SECONDS = 0.05
CLAIM = "orun-machine-claim-"  # prefix of a claim file; then process id and a number
LONGEST_CLAIM = 1 << 14  # bytes to read of a file that another user may have written
MACHINE = Path("/tmp")  # noqa: S108 - the one folder that all users share, whatever their TMPDIR


class Lock:
    """Exclusive or shared lock on a file.

    Args:
        path: of the file, in an existing folder.
        exclusive: nobody else may hold it.
        keep: leave the file when the lock is released. A shared lock must.
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
            if not self.keep and _names(self.path, self._descriptor):
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
                removed = not _names(self.path, descriptor)
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


class MachineClaim(Record, frozen=True):
    """Description of a measurement that holds the machine lock, or waits for it.

    Attributes:
        process: id of the process.
        project: folder of the project.
        pipeline: name of the pipeline.
        stage: id of the stage.
        seconds: how long the stage took last time; None if not known.
        since: when it got the lock, seconds since the epoch; None while it waits.
    """

    process: int
    project: str
    pipeline: str
    stage: str
    seconds: float | None = None
    since: float | None = None


class MachineLock:
    """Lock of the machine for one stage, exclusive or shared.

    Exclusive locks go first: from the first try on, no new shared lock is granted.

    Args:
        exclusive: hold the machine alone.
        folder: of the lock files.
        claim: shown to others while the machine is held exclusively.
    """

    def __init__(self, *, exclusive: bool, folder: Path, claim: MachineClaim | None = None) -> None:
        # An exclusive lock holds the entry while it waits; shared ones only pass through it.
        self._entry = Lock(f"{folder}/orun-machine-turn.lock", exclusive=exclusive, keep=True)
        self._machine = Lock(f"{folder}/orun-machine.lock", exclusive=exclusive, keep=True)
        self._short_stage = Lock(f"{folder}/orun-machine-beside.lock", keep=True)
        self._folder = folder
        self._claim = claim
        self._claim_lock = Lock(f"{folder}/{CLAIM}{os.getpid()}-{next(_claims)}.lock")

    @property
    def held(self) -> bool:
        """Whether this object holds the machine."""
        return self._machine.held or self._short_stage.held

    def try_acquire(self) -> bool:
        """Take the lock if it is free; return whether it is held. To be called until it is.

        Raises:
            StoreError: if the lock files cannot be opened.
        """
        if self.held:
            return True
        waited = self._entry.held
        if not self._entry.try_acquire():
            return False
        acquired = self._machine.try_acquire()
        if self._claim and (acquired or not waited):
            self._write_claim(replace(self._claim, since=time.time() if acquired else None))
        if acquired or not self._machine.exclusive:
            self._entry.release()
        return acquired

    def try_during_measurement(self) -> bool:
        """Let a short stage run during a measurement. Of all processes one stage at a time may.

        Raises:
            StoreError: if the lock file cannot be opened.
        """
        return self._short_stage.try_acquire()

    def claim(self) -> MachineClaim | None:
        """Return the claim of the measurement that holds the machine, or else waits for it; None if there is none."""
        claims = [claim for path in sorted(self._folder.glob(f"{CLAIM}*.lock")) if (claim := _read_claim(path))]
        return max(claims, key=lambda claim: claim.since is not None, default=None)

    def release(self) -> None:
        """Release the machine, or stop waiting for it."""
        for lock in (self._claim_lock, self._short_stage, self._entry, self._machine):
            lock.release()

    def _write_claim(self, claim: MachineClaim) -> None:
        with contextlib.suppress(OSError):  # a full disk: the claim only informs others
            self._claim_lock.take(wait=True)
            os.ftruncate(self._claim_lock.descriptor, 0)
            os.pwrite(self._claim_lock.descriptor, to_json(encode(claim)), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def machine_lock(exclusive: bool, claim: MachineClaim | None = None) -> MachineLock:
    """Return the lock of this machine, which all users and orun processes share; it is not taken yet.

    Args:
        exclusive: hold the machine alone.
        claim: shown to others while the machine is held exclusively.

    Raises:
        StoreError: if there is no folder for its files.
    """
    return MachineLock(exclusive=exclusive, folder=_machine_folder(), claim=claim if exclusive else None)


def _read_claim(path: Path) -> MachineClaim | None:
    """Return the claim in a file; None if its owner has died, or it is not a claim."""
    lock = Lock(path, exclusive=False, create=False)
    with contextlib.suppress(OSError, ValueError, RecursionError):  # it is gone, or another program's file
        if lock.take(wait=False):
            lock.release()
            return None
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            return decode(MachineClaim, from_json(os.read(descriptor, LONGEST_CLAIM)))
        finally:
            os.close(descriptor)
    return None


def _machine_folder() -> Path:
    """Return `MACHINE`, or the folder of `TMPDIR` if it cannot be written, as in a read-only container."""
    if os.access(MACHINE, os.W_OK):
        return MACHINE
    chosen = os.environ.get("TMPDIR", "")
    if not os.path.isabs(chosen):
        raise StoreError(
            "there is no folder for the lock that all orun processes of this machine share",
            why=f"{MACHINE} cannot be written",
            hint="Name one that can: export TMPDIR=FOLDER",
        )
    return Path(chosen)


def remove_free_locks(folder: Path) -> None:
    """Remove the files of exclusive locks whose owners died."""
    for name in os.listdir(folder):
        lock = Lock(folder / name, create=False)
        with contextlib.suppress(FileNotFoundError):  # released meanwhile
            if lock.take(wait=False):
                lock.release()


_claims = itertools.count()
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


def _names(path: str, descriptor: int) -> bool:
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
