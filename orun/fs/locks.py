"""Locks between processes: held by the kernel, so that they end with their owner.

A process holds the lock of a key while it makes the result of that key. All orun processes of a machine share one
more: stages hold it shared, a stage that measures time holds it alone. Who has it alone, or waits for that, says so in
a file beside it, which is locked as long as it is true.
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

STALE_SECONDS = 60.0  # that a host may take a file for there which another one has removed: NFS's `acdirmax`
AGAIN_SECONDS = 0.05
CLAIM = "orun-machine-claim-"  # then the id of the process, and a number
LONGEST_CLAIM = 1 << 14  # bytes that are read of what another user may have written
MACHINE = Path("/tmp")  # noqa: S108  (the one folder that all users share, whatever their TMPDIR says)


class Lock:
    """A lock on a file, exclusive or shared with other holders of the shared kind.

    Args:
        path: the file, in a folder that is there.
        exclusive: whether nobody else may hold it.
        keep: whether the file stays when the lock is released; a shared one must stay.
        create: whether the file is made when it is not there.
    """

    def __init__(self, path: str | Path, *, exclusive: bool = True, keep: bool = False, create: bool = True) -> None:
        self.path = str(path)
        self.exclusive = exclusive
        self.keep = keep
        self.create = create
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds it."""
        return self._descriptor is not None

    @property
    def descriptor(self) -> int:
        """The open file of a held lock; ValueError when it is not held."""
        if self._descriptor is None:
            raise ValueError(f"the lock {self.path} is not held")
        return self._descriptor

    def try_acquire(self) -> bool:
        """Take it if nobody is in the way; returns whether it is held now.

        Raises:
            StoreError: when the file cannot be opened.
        """
        with convert_os_errors("take a lock", self.path):
            return self.take(wait=False)

    def acquire(self, waiting: Callable[[], None] = lambda: None) -> None:
        """Take it, and call `waiting` once before waiting for another holder; signals such as Ctrl-C get through.

        Raises:
            StoreError: when the file cannot be opened.
        """
        if not self.try_acquire():
            waiting()
            with convert_os_errors("take a lock", self.path):
                self.take(wait=True)

    def release(self) -> None:
        """Let others have it; does nothing when it is not held. A file that cannot be removed is left to a sweep."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            if not self.keep and _is_file(self._descriptor, self.path):
                os.unlink(self.path)
        self.forget()

    def forget(self) -> None:
        """Close the file and leave it where it is."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None  # whatever is said of it, it is closed, and once
            _held.discard(self)
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def take(self, *, wait: bool) -> bool:
        """As `try_acquire` or `acquire`, with the OSError of the operating system."""
        operation = (fcntl.LOCK_EX if self.exclusive else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB)
        began = time.monotonic()
        while True:
            try:
                return self._take(operation)
            except OSError as error:  # another host has removed the file, which is not known here yet
                if error.errno != errno.ESTALE or time.monotonic() > began + STALE_SECONDS:
                    raise
                time.sleep(AGAIN_SECONDS)

    def _take(self, operation: int) -> bool:
        while not self.held:
            descriptor = _open(self.path, create=self.create)
            try:
                fcntl.flock(descriptor, operation)
                theirs = not _is_file(descriptor, self.path)
            except BlockingIOError:
                os.close(descriptor)
                return False
            except BaseException:
                os.close(descriptor)
                raise
            if theirs:
                os.close(descriptor)  # its last owner removed the file meanwhile: this lock excludes nobody
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
    """Who has the machine alone, or waits for that.

    Attributes:
        process: its id.
        project: folder of the project.
        pipeline: name of the pipeline.
        stage: id of the stage.
        seconds: how long the stage took last time; None when that is not known.
        since: when it got the machine, seconds since the epoch; None while it waits.
    """

    process: int
    project: str
    pipeline: str
    stage: str
    seconds: float | None = None
    since: float | None = None


class MachineLock:
    """A try of this process to have the machine, alone or beside others.

    Who wants it alone goes first: from the first try on, nobody new gets it shared.

    Args:
        exclusive: alone.
        folder: where the lock files are.
        claim: what others are told while it is held alone.
    """

    def __init__(self, *, exclusive: bool, folder: Path, claim: MachineClaim | None = None) -> None:
        # The turn is held while waiting to be alone; whoever shares only passes through it.
        self._turn = Lock(f"{folder}/orun-machine-turn.lock", exclusive=exclusive, keep=True)
        self._machine = Lock(f"{folder}/orun-machine.lock", exclusive=exclusive, keep=True)
        self._beside = Lock(f"{folder}/orun-machine-beside.lock", keep=True)
        self._folder = folder
        self._claim = claim
        self._claimed = Lock(f"{folder}/{CLAIM}{os.getpid()}-{next(_claims)}.lock")

    @property
    def held(self) -> bool:
        """Whether this object holds it."""
        return self._machine.held or self._beside.held

    def try_acquire(self) -> bool:
        """Take it if nobody is in the way; returns whether it is held now. To be called again until it is.

        Raises:
            StoreError: when the lock files cannot be opened.
        """
        if self.held:
            return True
        waited = self._turn.held
        if not self._turn.try_acquire():
            return False
        taken = self._machine.try_acquire()
        if self._claim and (taken or not waited):
            self._say(replace(self._claim, since=time.time() if taken else None))
        if taken or not self._machine.exclusive:
            self._turn.release()
        return taken

    def try_beside(self) -> bool:
        """Take a place beside whoever has it alone; one stage of all processes has it at a time.

        Raises:
            StoreError: when the lock file cannot be opened.
        """
        return self._beside.try_acquire()

    def claim(self) -> MachineClaim | None:
        """Who has it alone or waits for that; None when nobody says so."""
        claims = [claim for path in sorted(self._folder.glob(f"{CLAIM}*.lock")) if (claim := _claim_in(path))]
        return max(claims, key=lambda claim: claim.since is not None, default=None)

    def release(self) -> None:
        """Give it back, or give up waiting for it; does nothing when neither is the case."""
        for lock in (self._claimed, self._beside, self._turn, self._machine):
            lock.release()

    def _say(self, claim: MachineClaim) -> None:
        with contextlib.suppress(OSError):  # a full disk: those who wait are told less
            self._claimed.take(wait=True)
            os.ftruncate(self._claimed.descriptor, 0)
            os.pwrite(self._claimed.descriptor, to_json(encode(claim)), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def machine_lock(exclusive: bool, claim: MachineClaim | None = None) -> MachineLock:
    """The lock of this machine, for every user and every orun process on it; not yet tried.

    Args:
        exclusive: alone.
        claim: what others are told while it is held alone.

    Raises:
        StoreError: when there is no folder for it.
    """
    return MachineLock(exclusive=exclusive, folder=_machine(), claim=claim if exclusive else None)


def _claim_in(path: Path) -> MachineClaim | None:
    """What a file says of who has the machine; None when its owner has died, or it is no such file."""
    lock = Lock(path, exclusive=False, create=False)
    with contextlib.suppress(OSError, ValueError, RecursionError):  # it is gone, or somebody else's file
        if lock.take(wait=False):
            lock.release()
            return None
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            return decode(MachineClaim, from_json(os.read(descriptor, LONGEST_CLAIM)))
        finally:
            os.close(descriptor)
    return None


def _machine() -> Path:
    """`MACHINE`; where nobody can write to it, as in a container whose root is read-only, the folder of `TMPDIR`."""
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
            return os.open(path, flags | os.O_RDONLY)  # another user's: enough to lock it
        except FileNotFoundError:
            if not create:
                raise
        try:
            descriptor = os.open(path, flags | os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            continue  # somebody else made it meanwhile
        set_mode(descriptor, 0o644)  # whatever the umask: others must be able to open it
        return descriptor


def _is_file(descriptor: int, path: str) -> bool:
    """Whether `path` still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _drop_in_child() -> None:
    """Close what a forked child inherited: it would keep the lock alive after the death of its owner."""
    for lock in list(_held):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_in_child)
