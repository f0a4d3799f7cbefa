"""Connection between the runner, its fork servers and the stages: JSON lines and file descriptors over a socket."""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from collections.abc import Mapping
from typing import Any

from orun.core.serialization import from_json, to_json
from orun.executors.local.compat import receive_descriptors

CHUNK = 1 << 18
MAX_DESCRIPTORS = 8  # per line; more than any message carries


class Channel:
    """One end of a connection.

    Attributes:
        closed: whether the other end is gone.
        descriptors: descriptors that came with the lines so far, in their order.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._received = bytearray()
        self._unsent = bytearray()
        self.closed = False
        self.descriptors: deque[int] = deque()

    @classmethod
    def open_pair(cls) -> tuple[Channel, Channel]:
        """Return two connected ends."""
        left, right = socket.socketpair()
        return cls(left), cls(right)

    @classmethod
    def of(cls, descriptor: int) -> Channel:
        """Return the end of an inherited descriptor; child processes of this one do not inherit it."""
        os.set_inheritable(descriptor, False)
        return cls(socket.socket(fileno=descriptor))

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._socket.fileno()

    def send(self, message: Mapping[str, Any], *descriptors: int) -> None:
        """Send a message and wait until it is in the socket; a message to a closed end is lost."""
        line = _encode_message(message)
        try:
            sent = socket.send_fds(self._socket, [line], descriptors) if descriptors else 0
            self._socket.sendall(line[sent:])
        except (BrokenPipeError, ConnectionResetError):
            self.closed = True

    def post(self, line: bytes) -> None:
        """Send as much of a line as fits without waiting; `flush` sends the rest."""
        self._unsent += line
        self.flush()

    def post_message(self, message: Mapping[str, Any]) -> None:
        """Send a message as `post` does."""
        self.post(_encode_message(message))

    @property
    def unsent(self) -> bool:
        """Whether `flush` has something to send once the other end has read more."""
        return bool(self._unsent) and not self.closed

    def flush(self) -> None:
        """Send as much of what was posted as fits without waiting."""
        with contextlib.suppress(BlockingIOError):
            while self.unsent:
                try:
                    sent = self._socket.send(self._unsent, socket.MSG_DONTWAIT)
                except (BrokenPipeError, ConnectionResetError):
                    self.closed = True
                else:
                    del self._unsent[:sent]

    def receive_lines(self) -> list[bytes]:
        """Return every complete line that has arrived, with its end, without waiting."""
        with contextlib.suppress(BlockingIOError):
            while not self.closed:
                self._receive(socket.MSG_DONTWAIT)
        complete, end, rest = self._received.rpartition(b"\n")
        self._received = rest
        return [line + b"\n" for line in bytes(complete).split(b"\n")] if end else []

    def receive(self) -> dict[str, Any]:
        """Wait for one message; EOFError if the other end is gone without one."""
        while b"\n" not in self._received:
            self._receive(0)
            if self.closed:
                raise EOFError("the other end of the connection is gone")
        line, _, self._received = self._received.partition(b"\n")
        message: dict[str, Any] = from_json(bytes(line))
        return message

    def receive_messages(self) -> list[dict[str, Any]]:
        """Return every complete message that has arrived, without waiting."""
        return [from_json(line) for line in self.receive_lines()]

    def _receive(self, flags: int) -> None:
        try:
            data, descriptors = receive_descriptors(self._socket, CHUNK, MAX_DESCRIPTORS, flags)
        except ConnectionResetError:
            data, descriptors = b"", []
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        self.descriptors += descriptors
        self._received += data
        self.closed = not data

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


def _encode_message(message: Mapping[str, Any]) -> bytes:
    return to_json(message) + b"\n"
