"""Pressure on the machine during a measurement: pressure stall information and load."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pressure:
    """Load of the machine during a measurement.

    Attributes:
        cpu: share of the time in which some thread of the machine waited for a core; None if the kernel does not count
            it (PSI, Linux 4.20 and later).
        load: load average over the last minute; None while the measurement goes on.
    """

    cpu: float | None
    load: float | None


class PressureGauge:
    """Gauge of the pressure since it was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._stalled = read_stalled()

    def read(self) -> Pressure:
        """Return the pressure since the gauge was made."""
        now, seconds = read_stalled(), time.monotonic() - self._began
        share = None if now is None or self._stalled is None else min((now - self._stalled) / max(seconds, 1e-9), 1.0)
        return Pressure(share, os.getloadavg()[0])


def read_stalled() -> float | None:
    """Return the seconds since boot in which some thread waited for a core."""
    try:
        text = Path("/proc/pressure/cpu").read_text(encoding="utf-8")
    except OSError:  # not Linux, or a kernel without PSI
        return None
    total = re.search(r"^some .*total=(\d+)", text, re.MULTILINE)
    return int(total[1]) / 1e6 if total else None
