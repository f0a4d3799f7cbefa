"""Locks that a stage holds while it runs: one for its cache key, one for the machine.

A stage that measures has the machine alone, and others wait for it. One that is known to be short waits ten seconds at
most: it then runs beside the measurement, one at a time of all processes, and the next one of its run waits ten seconds
again. Measuring is made for such noise, and most measurements end within that time.

An orun in a stage of another one shares what that stage has of the machine, and asks for no lock of its own: behind
somebody who wants the machine alone it would wait for the stage, which waits for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import localtime, monotonic, strftime

from orun.core.events import Event, StageWaiting
from orun.core.serialization import Record
from orun.executors.local.reentrancy import outer
from orun.planning.plan import Step
from orun.store import Lock, MachineClaim, MachineLock, Store, machine_lock

SAME_STAGE = "another orun process, which runs the same stage"
ALONE = "the machine, to measure alone"
PATIENCE = 10.0  # seconds that a short stage waits for a measurement
SHORT = 2.0  # seconds that a stage took last time, at most, which may run beside one
LOOK_AGAIN = 1.0  # seconds after which it is asked once more who measures
LONGEST_NAME = 200  # characters of what another process calls itself


class Turn(Record, frozen=True):
    """The locks that a stage holds while it runs: that of its key, then the machine's.

    Attributes:
        short: whether it may run beside a measurement.
    """

    stage: str
    key: str
    lock: Lock
    machine: MachineLock | None
    exclusive: bool
    short: bool = False

    def waits_for(self, refused: set[bool], *, beside: bool) -> str:
        """Take what is free; who holds the rest, or nothing when all is held.

        Args:
            refused: the sorts of turns, exclusive or not, for which the machine was asked in vain in this round.
            beside: whether a place beside a measurement will do.

        Raises:
            UsageError: when what it would wait for is held for the stage in which this orun runs.
        """
        if around := outer():
            around.refuse(self.stage, self.key, exclusive=self.exclusive)
        if not self.lock.try_acquire():
            return SAME_STAGE
        if self.machine and (self.exclusive in refused or not self.machine.try_acquire()):
            refused.add(self.exclusive)
            return "" if beside and self.machine.try_beside() else ALONE
        return ""

    def release(self) -> None:
        """Let others have them."""
        if self.machine:
            self.machine.release()
        self.lock.release()


@dataclass
class Turns:
    """The turns of the stages of a run.

    Attributes:
        store: whose keys are locked.
        emit: hears for what a stage waits, once for each.
        project: folder of the project, for those who wait for this run.
        pipeline: its name, likewise.
        machine: makes the lock of the machine: machine(exclusive, claim).
        clock: seconds, from any moment on.
        refused: the sorts of turns, exclusive or not, for which the machine was asked in vain in this round. It is
            asked once, and no further stage takes its key: whoever measures is to be disturbed as little as may be.
    """

    store: Store
    emit: Callable[[Event], None]
    project: str
    pipeline: str
    machine: Callable[[bool, MachineClaim], MachineLock] = machine_lock
    clock: Callable[[], float] = monotonic
    refused: set[bool] = field(default_factory=set)
    _turns: dict[str, Turn] = field(default_factory=dict)
    _said: set[tuple[str, str]] = field(default_factory=set)
    _since: float | None = None  # when the machine was first refused to a stage that shares it
    _measuring: tuple[float, str] = (float("-inf"), "")  # when it was asked who measures, and who does

    def of(self, step: Step, *, exclusive: bool, short: bool) -> Turn:
        """The turn of a stage: the one that it has begun, or a new one, which holds nothing yet."""
        name = step.stage.id
        if name not in self._turns:
            claim = MachineClaim(os.getpid(), self.project, self.pipeline, name, step.seconds)
            machine = None if outer() else self.machine(exclusive, claim)
            self._turns[name] = Turn(name, step.key, self.store.key_lock(step.key), machine, exclusive, short)
        return self._turns[name]

    def may_ask(self, *, exclusive: bool, short: bool) -> bool:
        """Whether a stage may get the machine yet in this round."""
        return exclusive not in self.refused or (short and self.patience_is_over)

    @property
    def patience_is_over(self) -> bool:
        """Whether short stages have waited long enough for a measurement."""
        return self._since is not None and self.clock() - self._since >= PATIENCE

    def waits_for(self, turn: Turn) -> str:
        """Take what a stage needs and is free; for whom it waits, or nothing when it has all.

        Raises:
            UsageError: when what it would wait for is held for the stage in which this orun runs.
        """
        holder = turn.waits_for(self.refused, beside=turn.short and self.patience_is_over)
        if turn.exclusive or holder == SAME_STAGE:
            return holder
        if False not in self.refused:
            self._since = None
        elif self._since is None or not holder:  # the next one waits as long as the first
            self._since = self.clock()
        return self._who_measures(turn) if holder else ""

    def _who_measures(self, turn: Turn) -> str:
        if self.clock() - self._measuring[0] >= LOOK_AGAIN:
            self._measuring = self.clock(), who_measures(turn.machine.claim() if turn.machine else None)
        return self._measuring[1]

    def say(self, stage: str, what: str) -> None:
        """Say that a stage waits, unless that was said; where another one of this run holds its key, for that."""
        if what == SAME_STAGE:
            what = next((f"{name}, which is the same" for name in self._twins(stage)), what)
        if (stage, what) not in self._said:
            self._said.add((stage, what))
            self.emit(StageWaiting(stage, what))

    def _twins(self, stage: str) -> Iterator[str]:
        """The stages of this run that hold the key for which another waits."""
        key = self._turns[stage].key
        return (name for name, turn in self._turns.items() if turn.key == key and turn.lock.held)

    def end(self, stage: str) -> None:
        """Let go of what a stage holds, if it does."""
        if turn := self._turns.pop(stage, None):
            turn.release()

    def end_all(self) -> None:
        """Let go of everything."""
        for name in list(self._turns):
            self.end(name)


def who_measures(claim: MachineClaim | None) -> str:
    """Say for whom a stage waits that shares the machine: process, project, stage and expected end."""
    if claim is None:
        return "another orun process, which measures"
    stage, pipeline, project = map(_shown, (claim.stage, claim.pipeline, claim.project))
    if claim.process == os.getpid():
        who = f"{stage}, which"
    else:
        who = f"orun process {claim.process} ({pipeline} in {project}), whose stage {stage}"
    if claim.since is None:
        return f"{who} waits to measure"
    if claim.seconds is None:
        return f"{who} measures; how long that takes is not known yet"
    return f"{who} measures, until about {strftime('%H:%M:%S', localtime(claim.since + claim.seconds))}"


def _shown(name: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in name[:LONGEST_NAME])
