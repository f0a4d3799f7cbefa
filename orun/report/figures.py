"""Figures as people read them: ages, metrics and digests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from orun.core.metrics import Metric
from orun.core.run_record import RunResult, StageResult
from orun.core.source_location import Position
from orun.text.counts import count
from orun.text.units import show

ABSENT = "-"  # where there is nothing to show
NOT_THERE = "not there"  # a file that was looked for
DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
SHOWN = 3  # metrics of a stage in a headline
TELLING = ("p50", "speedup")  # shown before other metrics: of a latency, these are what people look for
_AGES = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"))


def format_age(seconds: float) -> str:
    """Return an age: `3 hours ago`; below a minute `just now`."""
    for length, name in _AGES:
        if seconds >= length:
            return f"{count(int(seconds // length), name)} ago"
    return "just now"


def format_minute(seconds: float) -> str:
    """Return a time in UTC, to the minute: `2026-11-29 15:04`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def format_headline(metrics: Mapping[str, Metric], gated: Sequence[str]) -> str:
    """Return the most telling metrics: gated ones in the order of the gates, then p50 and speedup, then others by name.

    The size has a column of its own, so it is repeated only if a gate judges it. Counts of one kind of several, such as
    `fused.Attention`, come last if they are 0.
    """
    names = [name for name in dict.fromkeys((*gated, *TELLING)) if name in metrics]
    ungated = (name for name in metrics if name not in names and name != "size")
    names += sorted(ungated, key=lambda name: ("." in name and metrics[name].value == 0, name))
    return ", ".join(f"{name} {show(metrics[name].value, metrics[name].unit)}" for name in names[:SHOWN])


def find_position(stage: StageResult, result: RunResult) -> Position:
    """Return where a stage stands in its file; the beginning of the file if that is not known."""
    return stage.position or Position(result.file, 1, 1)


def show_component(value: str | None, *, full: bool) -> str:
    """Return the value of a component; unless `full`, its digests are cut."""
    return ABSENT if value is None else value if full else shorten_digests(value)


def shorten_digests(text: str) -> str:
    """Return the text with each digest in it cut to what tells two apart for people."""
    return DIGEST.sub(r"\1", text)
