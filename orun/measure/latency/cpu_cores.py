"""Cores of this machine: the quietest one, pinning a thread to it, and a yardstick that tells whether it is shared.

A core may run two hardware threads. While another process, or another virtual machine, uses the second one, independent
operations take up to 1.8 times as long, and operations that wait for one another 1.1 times. Models with other kernels
suffer unequally: on one machine, an 8-bit model is 1.14 times as fast as in float while it has the core to itself, and
1.05 times while it has not. This lasts from a tenth of a second to minutes, and no counter that a virtual machine can
read shows it. The quotient of two short computations shows it at any clock rate: a *reading*.

What a reading is on a core alone depends on the processor and the libraries. The least reading of a measurement is one,
unless the core was shared all the time. Readings of earlier measurements on this machine tell of that.
"""

from __future__ import annotations

import json
import math
import os
import platform
import time
from bisect import insort
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from orun.environment.processor import read_cpu
from orun.errors import StoreError
from orun.fs.machine_folder import locate_readings

WATCH_SECONDS = 0.1  # the kernel counts in hundredths of a second
REPEATS = 15  # of both computations in a reading: 0.4 ms together
LONGEST_WATCHED = 0.015  # seconds of an inference during which a shared core is noticed: its block is not much longer
SHARED_READING = 1.2  # reading over that of a core alone, from which the core counts as shared
SHARED_ERROR = 0.2  # log ratio by which a ratio may be off on a shared core: 0.10 to 0.16 were seen
AWAIT_SECONDS = 0.1  # for which a block waits until nothing else uses the core
OPERATIONS = 20  # calls of numpy in the first computation
MISREAD = 0.02  # of readings may be too low: one in 500 was, by an eighth
REMEMBERED = 20  # measurements whose least readings tell what a core alone reads
LOW_QUANTILE = 0.2  # of these readings: even if most measurements had a shared core, and a few were read too low

_factors = np.linspace(0.5, 1.5, 1024, dtype=np.float32)
_products = np.empty_like(_factors)
_terms = np.linspace(0.0, 1.0, 2048)
_sums = np.empty_like(_terms)


def find_quietest_core() -> int | None:
    """Return the usable core that was idle most of the last moment; None if the system cannot tell or pin.

    Of equals the last: the first one often serves the interrupts of the machine. Call it while no model runs.
    """
    if not hasattr(os, "sched_setaffinity") or not Path("/proc/stat").exists():
        return None
    before = read_idle_ticks()
    time.sleep(WATCH_SECONDS)
    after = read_idle_ticks()
    usable = sorted(os.sched_getaffinity(0) & after.keys())
    return max(usable, key=lambda core: (after[core] - before.get(core, 0), core), default=None)


def pin(core: int) -> None:
    """Keep the calling thread on a core."""
    os.sched_setaffinity(0, {core})


def read_idle_ticks() -> dict[int, int]:
    """Return the idle ticks of each core since boot."""
    lines = Path("/proc/stat").read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines if line.startswith("cpu") and line[3].isdigit())
    return {int(row[0][3:]): int(row[4]) for row in rows}


@dataclass
class CoreWatch:
    """Watch over a core for the length of a measurement.

    Attributes:
        known: what a core alone reads, as earlier measurements tell.
        waited: seconds for which blocks waited until nothing else used the core.
    """

    known: float = math.inf
    waited: float = 0.0
    _readings: list[float] = field(default_factory=list)  # sorted

    @property
    def least(self) -> float:
        """What a core alone reads, as far as readings tell; see `find_low_reading`."""
        return min(self.known, find_low_reading(self._readings))

    def read(self, read: Callable[[], float]) -> float:
        """Return a reading, which is noted."""
        reading = read()
        insort(self._readings, reading)
        return reading

    def is_alone(self, reading: float) -> bool:
        """Return whether the core was not shared, as far as readings so far tell."""
        return reading <= SHARED_READING * self.least

    def await_core(self, read: Callable[[], float]) -> float:
        """Read until the core is not shared, for `AWAIT_SECONDS` at most; return the last reading."""
        begin = time.monotonic()
        while not self.is_alone(reading := self.read(read)) and time.monotonic() < begin + AWAIT_SECONDS:
            pass
        self.waited += time.monotonic() - begin
        return reading


def find_low_reading(readings: Sequence[float]) -> float:
    """Return the least of sorted readings but for the lowest fiftieth, some of which are misread; infinite for none."""
    return readings[int(MISREAD * len(readings))] if readings else math.inf


def recall_reading() -> float:
    """Return what a core alone reads, by earlier measurements of this user on this machine; infinite without any."""
    with suppress(OSError, StoreError), _open_readings() as file:
        if readings := _parse(file.read()).get(_describe_computation()):
            return float(np.quantile(readings, LOW_QUANTILE))
    return math.inf


def remember_reading(reading: float) -> None:
    """Keep the least reading of a measurement for later ones."""
    with suppress(OSError, StoreError), _open_readings() as file:
        readings, computation = _parse(file.read()), _describe_computation()
        readings[computation] = [*readings.get(computation, []), reading][-REMEMBERED:]
        file.seek(0)
        file.truncate()
        json.dump(readings, file)


def _open_readings() -> IO[str]:
    """Open the file of readings to read and write.

    Raises:
        OSError: if it cannot be written, or is somebody else's.
        StoreError: if there is no folder for it.
    """
    path = locate_readings()
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+", encoding="utf-8")
    if os.fstat(file.fileno()).st_uid != os.getuid():
        file.close()
        raise PermissionError(path)
    return file


def _describe_computation() -> str:
    """Return what readings depend on beside the core's other users."""
    return f"{read_cpu()['cpu']}, numpy {np.__version__}, Python {platform.python_version()}"


def _parse(text: str) -> dict[str, list[float]]:
    """Return the readings by what they depend on; none of a file that a killed process left unfinished."""
    try:
        return {str(name): [float(reading) for reading in readings] for name, readings in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def read_yardstick() -> float:
    """Return the time of independent operations over that of dependent ones, on the core of the calling thread.

    It is the median of `REPEATS`: a single computation may be interrupted, or misread by the clock.
    """
    return float(np.median([_time(_multiply) / _time(_accumulate) for _ in range(REPEATS)]))


def _multiply() -> None:
    for _ in range(OPERATIONS):
        np.multiply(_factors, _factors, out=_products)


def _accumulate() -> None:
    np.add.accumulate(_terms, out=_sums)


def _time(compute: Callable[[], None]) -> int:
    """Return the CPU time in nanoseconds, at least 1."""
    start = time.thread_time_ns()
    compute()
    return max(time.thread_time_ns() - start, 1)
