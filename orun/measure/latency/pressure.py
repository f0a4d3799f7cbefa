"""Pressure on the machine during a measurement: pressure stall information and load."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pressure:
    """How busy the machine was.

    Attributes:
        cpu: share of the time in which some thread of the machine waited for a core; None where the kernel does not
            count it (PSI, Linux 4.20 and later).
        load: load average over a minute at the end; None where there is none.
    """

    cpu: float | None
    load: float | None


class PressureGauge:
    """Watches the pressure from its making on."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._stalled = _stalled()

    def read(self) -> Pressure:
        """The pressure since the gauge was made."""
        now, seconds = _stalled(), time.monotonic() - self._began
        share = None if now is None or self._stalled is None else min((now - self._stalled) / max(seconds, 1e-9), 1.0)
        return Pressure(share, os.getloadavg()[0] if hasattr(os, "getloadavg") else None)


def _stalled() -> float | None:
    """Seconds since boot in which some thread waited for a core."""
    try:
        text = Path("/proc/pressure/cpu").read_text(encoding="utf-8")
    except OSError:  # not Linux, or a kernel without PSI
        return None
    found = re.search(r"^some .*total=(\d+)", text, re.MULTILINE)
    return int(found[1]) / 1e6 if found else None
