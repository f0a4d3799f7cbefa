"""Task of an agent: an order, and how far it is."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal

from orun.agent.frames import Message
from orun.agent.orders import StageOrder
from orun.core.machines import Built, Failed, Lost
from orun.executors import LocalExecutor
from orun.remote.artifacts import Download
from orun.remote.transfers import Pushed
from orun.runner.stage_locks import RunLocks

Owner = object  # identity of a driver's connection


@dataclass(eq=False)
class Task:
    """An order and how far it is."""

    owner: Owner
    work: StageOrder
    download: Download  # of its inputs
    phase: Literal["fetching", "waiting", "running", "pushing"] = "fetching"
    locks: RunLocks | None = None  # what it waits for or holds
    executor: LocalExecutor | None = None
    pushed: Future[Pushed] | None = None
    stored: bool = False  # whether the result was there before the run asked for it
    abandoned: bool = False  # whether nobody waits for the result any more


def describe_end(message: Message) -> str:
    """Return what became of an order, for the agent's user."""
    if isinstance(message, Built):
        return "is stored already" if message.stored else "is built"
    if isinstance(message, Failed):
        return f"failed: {message.failure.problem}"
    if isinstance(message, Lost):
        return f"is lost: {message.why}"
    return "is refused: its key is another one here"
