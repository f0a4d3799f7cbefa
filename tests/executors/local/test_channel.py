from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from orun.executors.local.channel import Channel

Pair = tuple[Channel, Channel]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ends = Channel.open_pair()
    yield ends
    for end in ends:
        end.close()


def test_messages_arrive_whole_and_in_order(pair: Pair) -> None:
    channel, other = pair
    channel.send({"a": 1})
    channel.send({"b": "ü\n"})
    assert other.receive_messages() == [{"a": 1}, {"b": "ü\n"}]
    assert other.receive_messages() == []
    assert not other.closed


def test_a_message_that_is_larger_than_the_connection_holds(pair: Pair) -> None:
    channel, other = pair
    text = "x" * 5_000_000
    channel.post_message({"text": text})
    channel.post_message({"end": True})
    assert channel.unsent
    received: list[dict[str, Any]] = []
    while len(received) < 2:
        channel.flush()
        received += other.receive_messages()
    assert received == [{"text": text}, {"end": True}]
    assert not channel.unsent


def test_part_of_a_message_waits_for_the_rest(pair: Pair) -> None:
    channel, other = pair
    channel.post(b'{"a"')
    assert other.receive_lines() == []
    channel.post(b": 1}\n")
    assert other.receive_lines() == [b'{"a": 1}\n']


def test_descriptors_travel_with_their_messages(pair: Pair) -> None:
    channel, other = pair
    read, write = os.pipe()
    channel.send({"first": True}, write)
    channel.send({"second": True}, read)
    os.close(read)
    os.close(write)
    assert other.receive_messages() == [{"first": True}, {"second": True}]
    write, read = other.descriptors
    assert not os.get_inheritable(read)
    os.write(write, b"x")
    assert os.read(read, 1) == b"x"
    os.close(read)
    os.close(write)


def test_the_end_of_the_other_side(pair: Pair) -> None:
    channel, other = pair
    channel.send({"last": True})
    channel.close()
    assert other.receive_messages() == [{"last": True}]
    assert other.closed
    other.send({"lost": True})
    other.post_message({"lost": True})
    assert not other.unsent


def test_waiting_for_one_message(pair: Pair) -> None:
    channel, other = pair
    channel.send({"a": 1})
    channel.send({"b": 2})
    channel.close()
    assert [other.receive(), other.receive()] == [{"a": 1}, {"b": 2}]
    with pytest.raises(EOFError, match=r"^the other end of the connection is gone$"):
        other.receive()


def test_programs_do_not_inherit_an_end_that_was_inherited() -> None:
    """One that outlives its stage would keep the connection open, and the runner would wait for it."""
    ours, theirs = socket.socketpair()
    with ours:
        descriptor = theirs.detach()
        os.set_inheritable(descriptor, True)
        channel = Channel.of(descriptor)
        assert not os.get_inheritable(descriptor)
        channel.close()
