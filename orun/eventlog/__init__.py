"""Event log of a run: its writer, and the reducer that makes the run's result of it."""

from __future__ import annotations

from orun.eventlog.listener import Listener, forward_activities, ignore
from orun.eventlog.reducer import Reducer, iter_events, read_log, read_repeated, read_result
from orun.eventlog.writer import Journal, build_unrecorded_notice

__all__ = [
    "Journal",
    "Listener",
    "Reducer",
    "build_unrecorded_notice",
    "forward_activities",
    "ignore",
    "iter_events",
    "read_log",
    "read_repeated",
    "read_result",
]
