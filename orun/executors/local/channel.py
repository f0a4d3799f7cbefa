"""Messages between the runner, its fork servers and the stages: JSON lines, and file descriptors, over a socket."""

from __future__ import annotations

import contextlib
import os
import socket
from array import array
from collections import deque
from collections.abc import Mapping
from typing import Any

from orun.core.serialization import from_json, to_json

CHUNK = 1 << 18
INT = array("i")
MAX_DESCRIPTORS = 8  # to one line; more than any message carries


class Channel:
    """One end of a connection.

    Attributes:
        closed: the other end is gone.
        descriptors: those that came with the lines so far, in their order.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._received = bytearray()
        self._unsent = bytearray()
        self.closed = False
        self.descriptors: deque[int] = deque()

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Two connected ends."""
        one, other = socket.socketpair()
        return cls(one), cls(other)

    @classmethod
    def of(cls, descriptor: int) -> Channel:
        """The end that an inherited descriptor is; programs that this process starts do not inherit it."""
        os.set_inheritable(descriptor, False)
        return cls(socket.socket(fileno=descriptor))

    def fileno(self) -> int:
        """Its descriptor, for a selector."""
        return self._socket.fileno()

    def send(self, message: Mapping[str, Any], *descriptors: int) -> None:
        """Send a message, waiting until it is on its way; a message to an end that is gone is lost."""
        line = _line(message)
        try:
            sent = socket.send_fds(self._socket, [line], descriptors) if descriptors else 0
            self._socket.sendall(line[sent:])
        except (BrokenPipeError, ConnectionResetError):
            self.closed = True

    def post(self, line: bytes) -> None:
        """Send a line as far as goes at once; `flush` sends the rest."""
        self._unsent += line
        self.flush()

    def post_message(self, message: Mapping[str, Any]) -> None:
        """`post` of a message."""
        self.post(_line(message))

    @property
    def unsent(self) -> bool:
        """Whether there is something to `flush` when the other end has read more."""
        return bool(self._unsent) and not self.closed

    def flush(self) -> None:
        """Send what was posted as far as goes without waiting."""
        with contextlib.suppress(BlockingIOError):
            while self.unsent:
                try:
                    sent = self._socket.send(self._unsent, socket.MSG_DONTWAIT)
                except (BrokenPipeError, ConnectionResetError):
                    self.closed = True
                else:
                    del self._unsent[:sent]

    def lines(self) -> list[bytes]:
        """Every whole line that has arrived, with its end; does not wait."""
        with contextlib.suppress(BlockingIOError):
            while not self.closed:
                self._receive(socket.MSG_DONTWAIT)
        whole, end, rest = self._received.rpartition(b"\n")
        self._received = rest
        return [line + b"\n" for line in bytes(whole).split(b"\n")] if end else []

    def receive(self) -> dict[str, Any]:
        """Wait for one message; EOFError when the other end is gone without one."""
        while b"\n" not in self._received:
            self._receive(0)
            if self.closed:
                raise EOFError("the other end of the connection is gone")
        line, _, self._received = self._received.partition(b"\n")
        message: dict[str, Any] = from_json(bytes(line))
        return message

    def messages(self) -> list[dict[str, Any]]:
        """Every whole message that has arrived; does not wait."""
        return [from_json(line) for line in self.lines()]

    def _receive(self, flags: int) -> None:
        # Not socket.recv_fds, which loses its flags before Python 3.12.
        room = socket.CMSG_LEN(MAX_DESCRIPTORS * INT.itemsize)
        try:
            data, extras, _, _ = self._socket.recvmsg(CHUNK, room, flags)
        except ConnectionResetError:
            data, extras = b"", []
        for _, _, content in extras:
            for descriptor in array("i", content):
                os.set_inheritable(descriptor, False)
                self.descriptors.append(descriptor)
        self._received += data
        self.closed = not data

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


def _line(message: Mapping[str, Any]) -> bytes:
    return to_json(message) + b"\n"
