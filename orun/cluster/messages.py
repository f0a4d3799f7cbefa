"""Messages of the programs that import Ray, one JSON text a line, on their standard output."""

from __future__ import annotations

import os
from collections.abc import Mapping

from orun.core.serialization import Record, decode, encode, from_json, to_json


class Message(Record, frozen=True):
    """Message of a relay or a member; without any field it says that the program is connected.

    Attributes:
        sockets: answer to a question: path of the socket of each machine that is there.
        lost: machine that cannot be reached any more.
        why: the reason.
        failed: error that ends the program: the problem in one sentence.
        hint: what to do about it.
    """

    sockets: Mapping[str, str] | None = None
    lost: str = ""
    why: str = ""
    failed: str = ""
    hint: str = ""


class Output:
    """Standard output of this process, kept for messages alone: Ray's prints go to standard error.

    Takes effect when it is made, before Ray is imported.
    """

    def __init__(self) -> None:
        self._descriptor = os.dup(1)
        os.dup2(2, 1)

    def send(self, message: Message) -> None:
        """Write a message, whole."""
        os.write(self._descriptor, to_json(encode(message)) + b"\n")  # up to PIPE_BUF it cannot be split


def parse(line: bytes) -> Message:
    """Return the message on a line."""
    return decode(Message, from_json(line))
