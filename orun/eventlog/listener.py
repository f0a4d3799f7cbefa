"""Listener of a run: a function that is called with each event as it happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from orun.core.activity import report_to
from orun.core.events import Event, Planning

Listener = Callable[[Event], None]


def ignore(_: Event) -> None:
    """Do nothing with an event."""


@contextmanager
def forward_activities(listener: Listener) -> Iterator[None]:
    """Pass activities on to the listener of a run that has not started yet; tell it of the end if that is an error."""
    try:
        with report_to(lambda activity: listener(Planning(activity))):
            yield
    except BaseException:
        listener(Planning(""))
        raise
