"""Membership of an agent's machine in a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from orun.cluster.messages import Message
from orun.cluster.program import Program
from orun.errors import OrunError


class Membership:
    """Membership of a machine, until `close`.

    Args:
        address: of the head.
        machine: the machine's id.
        socket: path of the agent's socket.
        folder: takes logs.
        on_end: called in another thread when the membership ends by itself.
        environment: of the process that imports Ray, of `ray_environment`.

    Attributes:
        error: why the membership has ended by itself; None while it has not.

    Raises:
        UsageError: if Ray or the token is missing here.
        HeadError: if the head cannot be used, or has a machine of that name.
    """

    def __init__(
        self,
        address: str,
        machine: str,
        socket: str,
        folder: Path,
        on_end: Callable[[], None],
        environment: Mapping[str, str],
    ) -> None:
        self.error: OrunError | None = None
        self._on_end = on_end
        self._closing = False
        arguments = (machine, socket)
        self._program = Program(
            "orun.cluster.member", address, arguments, folder / "member.log", self._note, environment
        )

    def _note(self, message: Message | None) -> None:
        if not self._closing and self.error is None and (error := self._program.error_of(message)):
            self.error = error
            self._on_end()

    def close(self) -> None:
        """Leave the cluster."""
        self._closing = True
        self._program.close()
