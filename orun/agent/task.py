"""Task of an agent: an order, and how far it is."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal

from orun.agent.frames import Message
from orun.agent.orders import StageOrder
from orun.agent.remotes import Fetch
from orun.core.machines import Built, Failed, Lost
from orun.executors import LocalExecutor
from orun.remote.transfers import Pushed
from orun.runner.stage_locks import RunLocks

Owner = object  # identity of a driver's connection


@dataclass(eq=False)
class Task:
    """An order and how far it is.

    Attributes:
        owner: the driver.
        work: the order and the steps of the work on it.
        phase: `fetching` inputs, `waiting` for the machine, `running`, or `pushing` the result.
        fetch: the download of its inputs.
        locks: what it waits for or holds.
        executor: runs its process.
        pushed: the push of the result.
        stored: whether the result was there before the run asked for it.
        abandoned: nobody waits for the result any more.
    """

    owner: Owner
    work: StageOrder
    fetch: Fetch
    phase: Literal["fetching", "waiting", "running", "pushing"] = "fetching"
    locks: RunLocks | None = None
    executor: LocalExecutor | None = None
    pushed: Future[Pushed] | None = None
    stored: bool = False
    abandoned: bool = False


def ending(message: Message) -> str:
    """Return what became of an order, for the agent's user."""
    if isinstance(message, Built):
        return "is stored already" if message.stored else "is built"
    if isinstance(message, Failed):
        return f"failed: {message.failure.problem}"
    if isinstance(message, Lost):
        return f"is lost: {message.why}"
    return "is refused: its key is another one here"
