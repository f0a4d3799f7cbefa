"""Fleet protocol: machines that run stages for this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from orun.core.events import Notice, StageWaiting
from orun.core.machines import (
    Built,
    Failed,
    Joined,
    Leaving,
    LogText,
    Lost,
    Machine,
    MachineFacts,
    Order,
    Refused,
    Snapshot,
)
from orun.core.serialization import Record
from orun.executors import Progress

FleetMessage: TypeAlias = (
    Progress | LogText | StageWaiting | Notice | Built | Failed | Refused | Lost | Joined | Leaving
)  # fmt: skip


class Fleet(Protocol):
    """Machines that run the orders of one run; used by one thread."""

    def machines(self) -> tuple[Machine, ...]:
        """Return the machines that are there now; look for those that joined or left, a few seconds at most."""

    def facts(self, snapshot: Snapshot, remote: str) -> tuple[MachineFacts, ...]:
        """Return what the machines know of a snapshot, whose tree is in the remote of that URL.

        All are asked at a time. A machine that did not get the project tells only that: see `MachineFacts.problem`.
        Another machine that cannot answer, or does not in time, is left out, and a notice of `wait` says why.
        """

    def look(self, snapshot: Snapshot, remote: str) -> None:
        """Begin to look for machines that joined since the last look; return at once. `Joined` follows for each."""

    def start(self, order: Order, machine: str) -> None:
        """Send an order to a machine; return at once. `Built`, `Failed`, `Refused` or `Lost` follows, exactly once."""

    def wait(self, timeout: float) -> list[FleetMessage]:
        """Return the messages since the last call; wait for the first or for `wake`, `timeout` seconds at most."""

    def wake(self) -> None:
        """End the present or next `wait`. Any thread may call this."""

    def cancel(self, stage: str) -> None:
        """Stop a stage; its last message follows. Do nothing if it is not running."""

    def close(self) -> None:
        """Stop all stages and let go of the machines. May be called again."""


class FleetRun(Record, frozen=True):
    """Fleet of a run, and the project's state that its machines get."""

    fleet: Fleet
    snapshot: Snapshot
    wait: float  # seconds that a stage waits for a machine that can run it
    agent_command: str  # starts one more machine
    options: str = ""  # to append to a command that uses the same machines; empty for those of the project's settings


Connect: TypeAlias = Callable[[str], Fleet]  # entry point of the group `orun.executors`: a fleet by its URL
