"""Reader of the sampled log of a server: lines to rows of the watched statistics.

A log may be of any length: it is read line by line. Its writer is `orun/stages/release/_server/sample_log.py`.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from orun.core.source_location import abridge
from orun.drift.release import LATENCY, Column, Release
from orun.errors import UsageError
from orun.fs.os_errors import quote
from orun.stages.release._server.sample_log import FORMAT

STDIN = "-"
LONGEST = 16 << 20  # bytes of a line
PAUSE = 0.5  # seconds between two looks at the end of a log that is followed


@dataclass(frozen=True, eq=False)
class Sample:
    """Record of the log: its time in seconds since the epoch, and a value for each column, as `DriftTest` takes it."""

    time: float
    values: NDArray[np.float64]


@dataclass
class Position:
    """Position in the logs of a release: the last request of each process of the server.

    A request that was read before is left out, so that a log may be read again after it has grown or was rotated.

    Attributes:
        last: number of the last request, by the name of the process.
        left_out: numbers of lines that were left out, by the reason.
    """

    last: dict[str, int] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)


YEAR_10000 = 253_402_300_800  # in seconds since 1970; Python's dates end before it
READ_BEFORE, OTHER_MODEL, INCOMPLETE = "read before", "of another model", "incomplete, as it is being written"


def read_samples(path: str, release: Release, position: Position, *, follow: bool = False) -> Iterator[Sample | None]:
    """Yield the records of a log; None at its end while it is followed.

    Args:
        path: the file, which may be compressed by gzip, or `-` for the standard input.
        release: what the server serves.
        position: what was read; it is moved.
        follow: whether to wait for further lines, in the file that has this name then.

    Raises:
        UsageError: when it cannot be read, or a line is no record of this release; it names file, line and column.
    """
    parser = _Parser(path, release, position)
    for line in _iter_lines(path, follow=follow):
        if line is None:
            yield None
        elif (sample := parser.parse(*line)) is not None:
            yield sample


def _iter_lines(path: str, *, follow: bool) -> Iterator[tuple[int, bytes] | None]:
    """Yield the lines of a log with their numbers; None at its end while it is followed.

    A line without an end is yielded only at the end of a log that is not followed. A log that was replaced is read to
    its end before the new one: its writer may have added to it until then.
    """
    file = _open(path)
    number, rest, is_replaced = 1, b"", False
    try:
        while True:
            piece = file.readline(LONGEST + 1)
            line, rest = rest + piece, b""
            if line.endswith(b"\n") or len(line) > LONGEST:
                yield number, line
                number += 1
            elif not follow:
                if line:
                    yield number, line
                return
            elif piece:
                rest = line
            elif is_replaced:
                file.close()
                file = _open(path)
                number, is_replaced = 1, False
            else:
                rest = line
                yield None
                time.sleep(PAUSE)
                is_replaced = path != STDIN and _is_replaced(path, file)
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"cannot read the log {path}", why=str(error)) from error
    finally:
        file.close()


def _open(path: str) -> gzip.GzipFile | io.BufferedReader:
    if path == STDIN:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return gzip.open(path) if path.endswith(".gz") else Path(path).open("rb")
    except OSError as error:
        raise UsageError(f"cannot read the log {path}", why=error.strerror or str(error)) from error


def _is_replaced(path: str, file: gzip.GzipFile | io.BufferedReader) -> bool:
    """Return whether another file has the name by now, or the file was emptied."""
    try:
        now, then = Path(path).stat(), os.fstat(file.fileno())
    except FileNotFoundError:
        return False  # between two files
    position = os.lseek(file.fileno(), 0, os.SEEK_CUR)  # in the file itself, whose content may be compressed
    return (now.st_dev, now.st_ino) != (then.st_dev, then.st_ino) or now.st_size < position


class _Parser:
    """Parser of the lines of a log."""

    def __init__(self, path: str, release: Release, position: Position) -> None:
        self._place = "<stdin>" if path == STDIN else path
        self._release = release
        self._position = position
        self._number = 0  # of the line

    def parse(self, number: int, line: bytes) -> Sample | None:
        """Return the record of a line with its number in the log; None if it is left out."""
        self._number = number
        if not line.endswith(b"\n") and len(line) <= LONGEST:
            return self._leave_out(INCOMPLETE)
        if len(line) > LONGEST:
            raise self._build_error("is too long", f"a line has at most {LONGEST >> 20} MiB")
        try:
            data = msgspec.json.decode(line)
        except (ValueError, RecursionError) as error:
            raise self._build_error("is no JSON", abridge(str(error))) from error
        if not isinstance(data, dict) or "sample_log" not in data:
            raise self._build_error("is no record of a sampled log", "each line is the JSON object of a request")
        if data["sample_log"] != FORMAT:
            raise self._build_error(f"has format {data['sample_log']!r}", f"this orun knows {FORMAT}")
        if self._release.model and data.get("model", self._release.model) != self._release.model:
            return self._leave_out(OTHER_MODEL)
        try:
            worker, request = str(data["worker"]), int(data["request"])
            if request <= self._position.last.get(worker, 0):
                return self._leave_out(READ_BEFORE)
            self._require_arrays(data)
            values = [self._read_value(data, column) for column in self._release.columns]
            sample = Sample(_parse_time(data["time"]), np.array(values))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise self._build_error("is damaged", why) from error
        self._position.last[worker] = request
        return sample

    def _leave_out(self, reason: str) -> Sample | None:
        self._position.left_out[reason] += 1
        return None

    def _require_arrays(self, data: Mapping[str, Any]) -> None:
        """Refuse a line with an array that the release does not have."""
        for group in ("inputs", "outputs"):
            for name, entry in data[group].items():
                expected = self._release.types.get((group, name))
                if expected != entry["type"]:
                    known = [f"{array} ({kind})" for (of, array), kind in self._release.types.items() if of == group]
                    problem = f"is of another model: among its {group} is {name} ({entry['type']})"
                    raise self._build_error(problem, f"{self._release.name} has {', '.join(known)}")

    def _read_value(self, data: Mapping[str, Any], column: Column) -> float:
        if column.name == LATENCY:
            return _check_finite(data["seconds"], column.name) if data["rows"] == self._release.rows else np.nan
        if column.array not in data[column.group]:
            return np.nan  # the server was told to leave it out
        value = data[column.group][column.array].get(column.statistic)
        if type(value) is float:  # which JSON has no word for if it is not finite
            return value
        return np.inf if value is None else _check_finite(value, column.name)

    def _build_error(self, problem: str, why: str) -> UsageError:
        is_editable = self._place != "<stdin>" and not self._place.endswith(".gz") and self._position.last
        hint = f"to leave it out: sed -i {self._number}d {quote(self._place)}" if is_editable else ""
        return UsageError(f"{self._place}:{self._number}: the line {problem}", why=why, hint=hint)


def _parse_time(value: object) -> float:
    seconds = _check_finite(value, "time")
    if not 0 <= seconds < YEAR_10000:
        raise ValueError("time is not in seconds since 1970")
    return seconds


def _check_finite(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(f"{name} is no number")
    return float(value)
