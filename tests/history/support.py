"""Measurements of a pipeline that nobody ran."""

from __future__ import annotations

from collections.abc import Sequence

from orun.core.metrics import Noise
from orun.history import Point, Series

DAY = 86400.0
NOW = 1_790_000_000.0


def point(value: float, measured_at: float, *, noise: Noise = "timing", machine: str = "0123456789ab") -> Point:
    """A latency."""
    return Point(
        pipeline="bert",
        stage="latency",
        uses="measure/latency",
        metric="p50",
        value=value,
        low=None,
        high=None,
        unit="s",
        better="lower",
        noise=noise,
        host="builder",
        machine=machine,
        key="c" * 64,
        run=f"run-{measured_at:.0f}",
        measured_at=measured_at,
    )


def nightly(values: Sequence[float], *, noise: Noise = "timing") -> Series:
    """One measurement a night, the last a day ago."""
    first = NOW - len(values) * DAY
    return Series(tuple(point(value, first + night * DAY, noise=noise) for night, value in enumerate(values)))
