"""Membership of an agent's machine in a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from orun.agent.address import Address
from orun.cluster.program import Program
from orun.cluster.settings import HeadError

START_PATIENCE = 90.0  # seconds for Ray to start the actor of a machine


class Membership:
    """Membership of a machine, until `close`.

    `folder` takes logs; `environment` is that of `build_environment`.

    Attributes:
        host: address of this machine, by which the others reach it.

    Raises:
        UsageError: if Ray or the token is missing here.
        HeadError: if the head cannot be used.
    """

    def __init__(self, address: str, machine: str, folder: Path, environment: Mapping[str, str]) -> None:
        self._program = Program("orun.cluster.member", address, (machine,), folder / "member.log", environment)
        self.host = self._program.host

    def announce(self, agent: Address, on_end: Callable[[], None]) -> None:
        """Let runs find the agent.

        `on_end` is called in another thread when the membership has ended by itself.

        Raises:
            HeadError: if the head has a machine of that name, or has ended.
        """
        self._program.tell(f"{agent} {agent.token}")
        self._program.answer(START_PATIENCE)
        self._program.on_message = on_end
        if self.find_error():
            on_end()

    def find_error(self) -> HeadError | None:
        """Return why the membership has ended by itself; None if it has not."""
        try:
            self._program.poll()
        except HeadError as error:
            return error
        return None

    def close(self) -> None:
        """Leave the cluster."""
        self._program.close()
