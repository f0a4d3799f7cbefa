"""Messages of the programs that import Ray, one JSON text a line, on their standard output."""

from __future__ import annotations

import os
from collections.abc import Mapping
from threading import Lock

from orun.core.serialization import Record, decode, encode, from_json, to_json
from orun.fs.durable import write_all


class Message(Record, frozen=True):
    """Message of a lister or a member; without any field it says that the program has done what it was asked.

    Attributes:
        host: address of this machine in the cluster: the first message has it.
        agents: answer to a question: URL and token of the agent of each machine that is there.
        failed: error that ends the program: the problem in one sentence.
        why: the reason.
        hint: what to do about it.
    """

    host: str = ""
    agents: Mapping[str, tuple[str, str]] | None = None
    failed: str = ""
    why: str = ""
    hint: str = ""


class Output:
    """Standard output of this process, kept for messages alone: Ray's prints go to standard error.

    Takes effect when it is made, before Ray is imported.
    """

    def __init__(self) -> None:
        self._descriptor = os.dup(1)
        os.dup2(2, 1)
        self._lock = Lock()

    def send(self, message: Message) -> None:
        """Write a message, whole; any thread may call this."""
        with self._lock:
            write_all(self._descriptor, to_json(encode(message)) + b"\n")


def parse(line: bytes) -> Message:
    """Return the message on a line."""
    return decode(Message, from_json(line))
