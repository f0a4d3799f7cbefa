"""Frames between a driver and an agent: four bytes with the length, then one message as a JSON object.

    driver -> agent: Hello, FactsRequest, Order, Cancel, Beat, Close
    agent -> driver: Challenge, Machine, MachineFacts, FactsFailed, Progress, LogText, StageWaiting, Notice, Built,
                     Failed, Refused, Lost, Leaving, Beat

The agent speaks first: its `Challenge` is answered by `Hello`, and that by `Machine`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, get_args

from orun.core.events import Notice, StageWaiting
from orun.core.machines import Built, Failed, Leaving, LogText, Lost, Machine, MachineFacts, Order, Refused, Snapshot
from orun.core.run_record import Failure
from orun.core.serialization import Record, decode, encode, from_json, to_json
from orun.executors import Progress

HEAD = 4  # bytes that hold the length
LONGEST = 64 << 20  # bytes of a message
LONGEST_HELLO = 4096  # bytes of the first message of a driver, which anybody may send


class Challenge(Record, frozen=True):
    """First message of an agent."""

    nonce: str  # random text that the proof is made for; empty if the agent asks for none


class Hello(Record, frozen=True):
    """First message of a driver."""

    driver: str  # host and process, for the agent's log
    proof: str = ""  # HMAC-SHA-256 of the nonce with the token as key, hexadecimal; empty if none was asked for


class FactsRequest(Record, frozen=True):
    """Question for the facts of a snapshot; its tree is in the remote of that URL."""

    snapshot: Snapshot
    remote: str


class FactsFailed(Record, frozen=True):
    """Answer of a machine that cannot tell its facts."""

    failure: Failure
    lacks_project: bool = False  # whether the snapshot did not arrive there from the remote


class Cancel(Record, frozen=True):
    """Order to stop a stage. If it is under way, `Failed` follows, or `Built` if its result is already being pushed."""

    stage: str


class Beat(Record, frozen=True):
    """Sign of life."""


class Close(Record, frozen=True):
    """Last message of a driver: its stages are stopped."""


Message: TypeAlias = (
    Hello | FactsRequest | Order | Cancel | Beat | Close
    | Challenge | Machine | MachineFacts | FactsFailed | Progress | LogText | StageWaiting | Notice | Built | Failed
    | Refused | Lost | Leaving
)  # fmt: skip
KINDS: Mapping[str, type[Message]] = {kind.__name__: kind for kind in get_args(Message)}


class FrameError(Exception):
    """Bytes that are no frame of this protocol."""


def encode_frame(message: Message) -> bytes:
    """Return a message as a frame."""
    data = to_json({type(message).__name__: encode(message)})
    return len(data).to_bytes(HEAD, "big") + data


class FrameReader:
    """Messages in a stream of bytes.

    Attributes:
        longest: bytes of the longest message that is accepted.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self.longest = longest
        self._received = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that are complete with these bytes.

        Raises:
            FrameError: if they are no frames.
        """
        self._received += data
        messages: list[Message] = []
        while len(self._received) >= HEAD:
            size = int.from_bytes(self._received[:HEAD], "big")
            if size > self.longest:
                raise FrameError(f"it sent a message of {size} bytes, and {self.longest} are the most")
            if len(self._received) < HEAD + size:
                break
            messages.append(_decode_message(bytes(self._received[HEAD : HEAD + size])))
            del self._received[: HEAD + size]
        return messages


def _decode_message(data: bytes) -> Message:
    try:
        ((name, fields),) = from_json(data).items()
        return decode(KINDS[name], fields)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise FrameError(f"it is no message of this version of orun: {error}") from None
