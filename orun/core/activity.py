"""Activity of this process before there is anything else to show: what it reads, digests or looks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_receiver: ContextVar[Callable[[str], None] | None] = ContextVar("receiver of activities", default=None)


def report(text: str) -> None:
    """Say what begins now, such as `planning int8 (3 of 10): reading weights.bin`."""
    if receiver := _receiver.get():
        receiver(text)


@contextmanager
def report_to(receiver: Callable[[str], None]) -> Iterator[None]:
    """Let a function receive what is reported inside of the block."""
    token = _receiver.set(receiver)
    try:
        yield
    finally:
        _receiver.reset(token)
