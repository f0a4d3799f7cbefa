"""Locks that a stage holds while it runs: one for its cache key, one for the machine.

The key lock makes concurrent processes build a key once. The machine lock lets a measurement run alone.

A short stage waits ten seconds at most for a measurement, then runs during it. Only one stage of all processes does
so at a time, and the next short stage of the run waits ten seconds again. Measurements tolerate such noise. A stage
that never ran may be long: it waits for the end.

A nested orun takes no machine lock: it runs under that of the stage around it, and waiting for its own would deadlock.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from time import localtime, monotonic, strftime

from orun.core.events import Event, StageWaiting
from orun.core.serialization import Record
from orun.executors import find_enclosing_stage
from orun.fs.locks import Lock
from orun.fs.machine_locks import MachineClaim, MachineLock, build_machine_lock
from orun.pipeline.model import Stage
from orun.planning.plan import Step
from orun.stages.contract import Spec
from orun.store import Store

SAME_STAGE = "another orun, which builds the same stage"
ALONE = "other stages on this machine to end, so that it measures alone"
PATIENCE = 10.0  # seconds that a short stage waits for a measurement
SHORT = 2.0  # seconds: a stage that took at most as long last time may run during a measurement
LOOK_AGAIN = 1.0  # seconds between two looks at who measures
LONGEST_NAME = 200  # characters of a name in another process's claim


class LockMode(Enum):
    """Mode of the machine lock."""

    SHORT = "short"  # shared; during a measurement too, after some patience
    SHARED = "shared"  # several stages at a time
    EXCLUSIVE = "exclusive"  # a measurement, alone on the machine
    REMOTE = "remote"  # none: another machine runs the stage

    @property
    def of_machine(self) -> LockMode:
        """Mode in which the machine itself is locked: short stages share it."""
        return LockMode.SHARED if self is LockMode.SHORT else self


def choose_lock_mode(spec: Spec, stage: Stage, seconds: float | None) -> LockMode:
    """Return how a stage takes the machine lock, by the seconds that it took last time, if they are known."""
    if spec.exclusive:
        return LockMode.EXCLUSIVE
    small = seconds is not None and seconds <= SHORT and stage.cpus == 1 and not stage.gpus
    return LockMode.SHORT if small and spec.stage_class == "portable" else LockMode.SHARED


class StageLocks(Record, frozen=True):
    """Key lock and machine lock of one stage; no machine lock in a nested orun."""

    stage: str
    key: str
    key_lock: Lock
    machine: MachineLock | None
    mode: LockMode

    def try_acquire(self, refused: set[LockMode], *, during_measurement: bool) -> str:
        """Acquire every lock that is free; return who holds the first that is not, or "" when all are held.

        Args:
            refused: modes in which the machine was refused in this scheduling round; those are not tried again. A
                refusal is added.
            during_measurement: whether the place beside a measurement will do.

        Raises:
            UsageError: if the lock is held by the stage in which this orun runs.
        """
        if enclosing := find_enclosing_stage():
            enclosing.refuse_deadlock(self.stage, self.key, exclusive=self.mode is LockMode.EXCLUSIVE)
        if not self.key_lock.try_acquire():
            return SAME_STAGE
        mode = self.mode.of_machine
        if self.machine and (mode in refused or not self.machine.try_acquire()):
            refused.add(mode)
            return "" if during_measurement and self.machine.try_during_measurement() else ALONE
        return ""

    def release(self) -> None:
        """Release both locks."""
        if self.machine:
            self.machine.release()
        self.key_lock.release()


@dataclass
class RunLocks:
    """Locks of all stages of a run."""

    store: Store
    emit: Callable[[Event], None]
    project: str  # its folder, told to processes that wait for this run
    pipeline: str  # its name, told likewise
    machine: Callable[[bool, MachineClaim], MachineLock] = build_machine_lock
    clock: Callable[[], float] = monotonic  # monotonic seconds
    refused: set[LockMode] = field(default_factory=set)  # modes refused in this round, not tried again in it
    _locks: dict[str, StageLocks] = field(default_factory=dict)
    _reported: set[tuple[str, str]] = field(default_factory=set)
    _refused_since: float | None = None  # when the machine was first refused to a shared stage
    _measuring: tuple[float, str] = (float("-inf"), "")  # time of the last look at who measures, and its result

    def prepare_locks(self, step: Step, mode: LockMode) -> StageLocks:
        """Return the locks of a stage; on the first call they are created, and nothing is held yet."""
        name = step.stage.id
        if name not in self._locks:
            claim = MachineClaim(os.getpid(), self.project, self.pipeline, name, step.seconds)
            none = mode is LockMode.REMOTE or find_enclosing_stage()
            machine = None if none else self.machine(mode is LockMode.EXCLUSIVE, claim)
            self._locks[name] = StageLocks(name, step.key, self.store.build_key_lock(step.key), machine, mode)
        return self._locks[name]

    def may_try(self, mode: LockMode) -> bool:
        """Return whether a stage may still get the machine in this round."""
        return mode.of_machine not in self.refused or (mode is LockMode.SHORT and self._is_patience_over())

    def _is_patience_over(self) -> bool:
        return self._refused_since is not None and self.clock() - self._refused_since >= PATIENCE

    def try_acquire(self, locks: StageLocks) -> str:
        """Acquire the locks of a stage as far as they are free; return what it waits for, or "" when all are held.

        Raises:
            UsageError: if a lock is held by the stage in which this orun runs.
        """
        during_measurement = locks.mode is LockMode.SHORT and self._is_patience_over()
        holder = locks.try_acquire(self.refused, during_measurement=during_measurement)
        if locks.mode in (LockMode.EXCLUSIVE, LockMode.REMOTE) or holder == SAME_STAGE:
            return holder
        if LockMode.SHARED not in self.refused:
            self._refused_since = None
        elif self._refused_since is None or not holder:  # the next stage waits as long as the first
            self._refused_since = self.clock()
        return self._find_measurement(locks) if holder else ""

    def _find_measurement(self, locks: StageLocks) -> str:
        if self.clock() - self._measuring[0] >= LOOK_AGAIN:
            self._measuring = self.clock(), describe_measurement(locks.machine.find_claim() if locks.machine else None)
        return self._measuring[1]

    def report_waiting(self, stage: str, holder: str) -> None:
        """Emit once that a stage waits for a holder; name the stage of this run if that holds its key."""
        if holder == SAME_STAGE:
            key = self._locks[stage].key
            held = (name for name, locks in self._locks.items() if locks.key == key and locks.key_lock.held)
            holder = next((f"{name}, which has the same key" for name in held), holder)
        if (stage, holder) not in self._reported:
            self._reported.add((stage, holder))
            self.emit(StageWaiting(stage, holder))

    def release(self, stage: str) -> None:
        """Release what a stage holds, if anything."""
        if locks := self._locks.pop(stage, None):
            locks.release()

    def release_all(self) -> None:
        """Release every lock."""
        for stage in list(self._locks):
            self.release(stage)


def describe_measurement(claim: MachineClaim | None) -> str:
    """Return the measurement that has the machine, its expected end, and its process if that is another one.

    Of a measurement that never ended before, the expected end is not known: then when it began.
    """
    if claim is None:
        return "a measurement of another orun to end"
    stage, pipeline, project = map(_replace_unprintable, (claim.stage, claim.pipeline, claim.project))
    if claim.since is None:
        end = "to begin and end"
    elif claim.seconds is None:
        end = f"to end; it began at {_format_time(claim.since)}"
    else:
        end = f"to end at about {_format_time(claim.since + claim.seconds)}"
    if claim.process == os.getpid():
        return f"the measurement {stage} {end}"
    return f"the measurement {stage} of {pipeline} {end} (process {claim.process} in {project})"


def _format_time(seconds: float) -> str:
    return strftime("%H:%M:%S", localtime(seconds))


def _replace_unprintable(name: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in name[:LONGEST_NAME])
