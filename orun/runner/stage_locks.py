"""Which stage may run now, among the processes that share a store and a machine: the locks of each stage's turn.

An orun in a stage of another one shares what that stage has of the machine, and asks for no lock of its own: behind
somebody who wants the machine alone it would wait for the stage, which waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from orun.core.events import Event, StageWaiting
from orun.core.serialization import Record
from orun.executors.local.reentrancy import outer
from orun.planning.plan import Step
from orun.store import Lock, MachineLock, Store, machine_lock

SAME_STAGE = "another orun process, which runs the same stage"


class Turn(Record, frozen=True):
    """The locks that a stage holds while it runs: that of its key, then the machine's."""

    stage: str
    key: str
    lock: Lock
    machine: MachineLock | None
    exclusive: bool

    def waits_for(self, refused: set[bool]) -> str:
        """Take what is free; who holds the rest, or nothing when all is held.

        Args:
            refused: the sorts of turns, exclusive or not, for which the machine was asked in vain in this round.

        Raises:
            UsageError: when what it would wait for is held for the stage in which this orun runs.
        """
        if around := outer():
            around.refuse(self.stage, self.key, exclusive=self.exclusive)
        if not self.lock.try_acquire():
            return SAME_STAGE
        if self.machine and (self.exclusive in refused or not self.machine.try_acquire()):
            refused.add(self.exclusive)
            return "the machine, to measure alone" if self.exclusive else "another orun process, which measures"
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
        refused: the sorts of turns, exclusive or not, for which the machine was asked in vain in this round. It is
            asked once, and no further stage takes its key: whoever measures is to be disturbed as little as may be.
    """

    store: Store
    emit: Callable[[Event], None]
    refused: set[bool] = field(default_factory=set)
    _turns: dict[str, Turn] = field(default_factory=dict)
    _said: set[tuple[str, str]] = field(default_factory=set)

    def of(self, step: Step, *, exclusive: bool) -> Turn:
        """The turn of a stage: the one that it has begun, or a new one, which holds nothing yet."""
        name = step.stage.id
        if name not in self._turns:
            machine = None if outer() else machine_lock(exclusive=exclusive)
            self._turns[name] = Turn(name, step.key, self.store.key_lock(step.key), machine, exclusive)
        return self._turns[name]

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
