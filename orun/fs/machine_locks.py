"""Lock of the machine, which all its orun processes share: a measurement holds it exclusively, other stages shared.

The process of a measurement describes itself in a claim file, which it keeps locked.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from orun.core.serialization import Record, decode, encode, from_json, replace, to_json
from orun.fs.locks import Lock
from orun.fs.machine_folder import choose_machine_folder

CLAIM = "orun-machine-claim-"  # prefix of a claim file; then process id and a number
LONGEST_CLAIM = 1 << 14  # bytes to read of a file that another user may have written

_claims = itertools.count()


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
        # An exclusive lock holds the queue while it waits; shared ones only pass through it. The names of the files are
        # those of other versions of orun.
        self._queue = Lock(f"{folder}/orun-machine-turn.lock", exclusive=exclusive, keep=True)
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
        waited = self._queue.held
        if not self._queue.try_acquire():
            return False
        acquired = self._machine.try_acquire()
        if self._claim and (acquired or not waited):
            self._write_claim(replace(self._claim, since=time.time() if acquired else None))
        if acquired or not self._machine.exclusive:
            self._queue.release()
        return acquired

    def try_during_measurement(self) -> bool:
        """Let a short stage run during a measurement. Of all processes one stage at a time may.

        Raises:
            StoreError: if the lock file cannot be opened.
        """
        return self._short_stage.try_acquire()

    def find_claim(self) -> MachineClaim | None:
        """Return the claim of the measurement that holds the machine, or else waits for it; None if there is none."""
        claims = [claim for path in sorted(self._folder.glob(f"{CLAIM}*.lock")) if (claim := _read_claim(path))]
        return max(claims, key=lambda claim: claim.since is not None, default=None)

    def release(self) -> None:
        """Release the machine, or stop waiting for it."""
        for lock in (self._claim_lock, self._short_stage, self._queue, self._machine):
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


def build_machine_lock(exclusive: bool, claim: MachineClaim | None = None) -> MachineLock:
    """Return the lock of this machine, which all users and orun processes share; it is not taken yet.

    An exclusive one holds the machine alone, and its claim is shown to others.

    Raises:
        StoreError: if there is no folder for its files.
    """
    return MachineLock(exclusive=exclusive, folder=choose_machine_folder(), claim=claim if exclusive else None)


def _read_claim(path: Path) -> MachineClaim | None:
    """Return the claim in a file; None if its owner has died, or it is not a claim."""
    # Without `keep`: if the owner has died, the release removes the file, which nobody needs any more.
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
