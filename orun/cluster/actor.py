"""Actor on an agent's machine: carries bytes between Ray and the agent's Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from time import monotonic

POLL = 5.0  # seconds after which `receive` answers without data, as a heartbeat
PATIENCE = 15.0  # seconds without an answer, or without a question, after which the other side counts as lost
CHUNK = 1 << 16  # bytes; Ray puts results of more than 100 kB into its object store


@dataclass
class Connection:
    """Connection to the agent for one run.

    Attributes:
        reader: bytes of the agent.
        writer: bytes for the agent.
        polled_at: when the run last asked for bytes, on the monotonic clock.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    polled_at: float


class Tunnel:
    """Asynchronous actor; its methods are called through Ray, several at a time.

    Args:
        path: the agent's socket.

    Attributes:
        connections: the open ones, by their numbers.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.connections: dict[int, Connection] = {}
        self._count = 0
        self._watch: asyncio.Task[None] | None = None

    async def ping(self) -> None:
        """Answer."""

    async def connect(self) -> int:
        """Open a connection to the agent; return its number.

        Raises:
            OSError: if the agent has ended.
        """
        reader, writer = await asyncio.open_unix_connection(self._path)
        self._watch = self._watch or asyncio.create_task(self._close_abandoned())
        self._count += 1
        self.connections[self._count] = Connection(reader, writer, monotonic())
        return self._count

    async def send(self, number: int, data: bytes) -> bool:
        """Pass bytes to the agent; return whether the connection is still open."""
        connection = self.connections.get(number)
        if connection is None:
            return False
        try:
            connection.writer.write(data)
            await connection.writer.drain()
        except OSError:
            return False
        return True

    async def receive(self, number: int) -> bytes | None:
        """Return bytes of the agent: none after `POLL` seconds without any, None at the end of the connection."""
        connection = self.connections.get(number)
        if connection is None:
            return None
        connection.polled_at = monotonic()
        try:
            return await asyncio.wait_for(connection.reader.read(CHUNK), POLL) or None
        except TimeoutError:
            return b""
        except OSError:
            return None

    async def close(self, number: int) -> None:
        """Close a connection."""
        if connection := self.connections.pop(number, None):
            connection.writer.close()
            with contextlib.suppress(OSError):
                await connection.writer.wait_closed()

    async def _close_abandoned(self) -> None:
        """Close the connections of runs that ask no more."""
        while True:
            await asyncio.sleep(POLL)
            for number, connection in list(self.connections.items()):
                if monotonic() - connection.polled_at > PATIENCE:
                    await self.close(number)
