"""A series of numbers as one short line."""

from __future__ import annotations

import math
from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"
WIDEST = 40


def sparkline(values: Sequence[float]) -> str:
    """The newest values as bars between their least and their largest; an x for what is no finite number."""
    shown = values[-WIDEST:]
    finite = [value for value in shown if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return "".join(_bar(value, low, high) if math.isfinite(value) else "x" for value in shown)


def _bar(value: float, low: float, high: float) -> str:
    if high == low:
        return BARS[len(BARS) // 2]
    share = (value / 2 - low / 2) / (high / 2 - low / 2)  # the whole range may be too large for a number
    return BARS[round(share * (len(BARS) - 1))]
