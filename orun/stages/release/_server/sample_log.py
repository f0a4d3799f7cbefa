"""Sampled log of a server: statistics of the inputs and outputs of a share of its requests, one JSON object a line.

A line holds no array of a request. Its least and its largest values are values of the request all the same, to three
digits, and so is the mean of an array of one element: name arrays of personal data in `without`. Processes may share a
file, as each line is one write at its end. A file that logrotate has renamed is left, and a new one begun.

Needs NumPy and the standard library alone: it is copied into the folder of a server. `docs/reference/sample-log.md`
documents the format, which `orun watch` reads.
"""

import json
import logging
import math
import os
import random
import threading
import time
import zlib
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Statistics = dict[str, float | None]

FORMAT = 1
LARGEST = 1 << 30  # bytes of a file after which nothing is logged until the file is rotated
COUNTED = 4096  # elements of a large array that are counted
COMPARED = 1 << 16  # elements of a large output among which top classes are looked for
LABELS = 1 << 16  # codes of labels
DIGITS = 3  # significant digits of a statistic

logger = logging.getLogger("orun.sample_log")


class SampleLog:
    """Writer of the log of one process.

    Args:
        path: the file; lines are added to it.
        rate: share of the requests to log, from 0 to 1.
        seed: seed of the choice.
        without: names of inputs and outputs to leave out.
        model: what tells the model from others, such as its SHA-256.
        largest: bytes of the file after which nothing is added until it is rotated.
    """

    def __init__(
        self,
        path: Path,
        rate: float,
        seed: int,
        *,
        without: Collection[str] = (),
        model: str = "",
        largest: int = LARGEST,
    ) -> None:
        if not 0 <= rate <= 1:
            raise ValueError(f"the share of requests to log must be from 0 to 1, not {rate}")
        self.path = Path(path)
        self.rate = rate
        self.without = frozenset(without)
        self.model = model
        self.largest = largest
        self._choice = random.Random(seed)  # noqa: S311 - no secret
        self._lock = threading.Lock()
        self._process = 0
        self._requests = 0
        self._file = -1
        self._is_failing = False
        self._is_cut = False
        self._begin()

    def record(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], seconds: float) -> None:
        """Log a request, if it is among the sampled ones. A full disk is no error: it is warned of, once.

        Args:
            inputs: value of each input, as the request sent it.
            outputs: value of each output; what is no array is left out.
            seconds: time from the request to its response.
        """
        with self._lock:
            if os.getpid() != self._process:
                self._begin()
            self._requests += 1
            if self._choice.random() >= self.rate:
                return
            line = self._build_line(inputs, outputs, seconds)
            try:
                self._write(json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n")
                self._is_failing = False
            except OSError as error:
                if not self._is_failing:
                    logger.warning("cannot write to %s: %s; requests go on unlogged", self.path, error.strerror)
                self._is_failing = True

    def open(self) -> None:
        """Open the file before the first request, so that a server learns at its start that it cannot log.

        Raises:
            OSError: if lines cannot be added to the file.
        """
        with self._lock:
            self._open()

    def close(self) -> None:
        """Close the file; a later request opens it again."""
        with self._lock:
            self._close()

    def _begin(self) -> None:
        """Take a name for this process, a forked one too: with the number of a request it makes lines unique."""
        self._process = os.getpid()
        self._worker = os.urandom(6).hex()
        self._requests = 0

    def _build_line(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], seconds: float) -> dict[str, Any]:
        line = {
            "sample_log": FORMAT,
            "time": round(time.time(), 3),
            "worker": self._worker,
            "request": self._requests,
            "seconds": _round(seconds),
        }
        if self.model:
            line["model"] = self.model
        return line | summarize(inputs, outputs, self._choice, self.without)

    def _write(self, line: bytes) -> None:
        if self._file < 0 or self._is_rotated():
            self._open()
        if os.fstat(self._file).st_size + len(line) > self.largest:
            raise OSError(0, f"it has reached {self.largest} bytes, and must be rotated")
        if self._is_cut:
            line = b"\n" + line  # there was no room for the end of the last one
        self._is_cut = os.write(self._file, line) < len(line)
        if self._is_cut:
            raise OSError(0, "a line was cut, as the disk is full")

    def _open(self) -> None:
        self._close()
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o640)
        self._is_cut = False

    def _is_rotated(self) -> bool:
        """Return whether the path names another file by now, or none."""
        try:
            now, then = self.path.stat(), os.fstat(self._file)
        except FileNotFoundError:
            return True
        return (now.st_dev, now.st_ino) != (then.st_dev, then.st_ino)

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def summarize(
    inputs: Mapping[str, Array], outputs: Mapping[str, Array], choice: random.Random, without: Collection[str] = ()
) -> dict[str, Any]:
    """Return what a line says of the arrays of a request: its rows, and the statistics of one of them.

    A request of several rows is summarized by one row, chosen at random: statistics of more rows would spread less
    than those of the release's examples. Its rows are its first axis, if that is equally long in all arrays.
    """
    groups = {"inputs": _select_arrays(inputs, without), "outputs": _select_arrays(outputs, without)}
    lengths = {array.shape[0] if array.ndim else 0 for group in groups.values() for array in group.values()}
    rows = lengths.pop() if len(lengths) == 1 else 0
    if rows > 1:
        row = choice.randrange(rows)
        groups = {name: {key: array[row : row + 1] for key, array in group.items()} for name, group in groups.items()}
    summary: dict[str, Any] = {"rows": max(rows, 1)}
    for name, group in groups.items():
        summary[name] = {key: _summarize_array(array, is_output=name == "outputs") for key, array in group.items()}
    return summary


def _select_arrays(values: Mapping[str, Array], without: Collection[str]) -> dict[str, Array]:
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray) and name not in without}


def _summarize_array(array: Array, *, is_output: bool) -> dict[str, Any]:
    kind = "text" if array.dtype.kind in "OSU" else str(array.dtype)
    return {"type": kind, "shape": list(array.shape), **compute_statistics(array, is_output=is_output)}


def compute_statistics(array: Array, *, is_output: bool) -> Statistics:
    """Return the statistics of an array by their names; None for a statistic that has no value.

    Texts are summarized by their lengths. Outputs have the top class along their last axis, too.
    """
    texts = array.dtype.kind in "OSU"
    values = np.array([len(str(text)) for text in array.ravel()], np.int64) if texts else _to_numbers(array)
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    summary: Statistics = {"size": float(array.size), **_compute_moments(finite)}
    if values.dtype.kind == "f":
        summary["missing"] = _round(1 - finite.size / values.size) if values.size else None
    else:
        summary |= _count_distinct(array.ravel())
    if is_output:
        summary |= _encode_label(array) if texts else _compute_top(values)
    return summary


def _to_numbers(array: Array) -> Array:
    """Return numbers of a type that NumPy computes with: half floats and those of other packages as floats."""
    if array.dtype.kind in "biu":
        return array
    if array.dtype.kind == "c":
        return np.abs(array)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)


def _compute_moments(values: Array) -> Statistics:
    if not values.size:
        return dict.fromkeys(("mean", "std", "min", "max", "zeros"))
    with np.errstate(all="ignore"):  # sums of huge numbers are no number
        figures = (
            values.mean(dtype=np.float64),
            values.std(dtype=np.float64),
            values.min(),
            values.max(),
            1 - np.count_nonzero(values) / values.size,
        )
    return dict(zip(("mean", "std", "min", "max", "zeros"), map(_round, figures), strict=True))


def _count_distinct(values: Array) -> Statistics:
    """Return the number of distinct values, and the share of the most frequent one: of padding, if there is any."""
    some = _sample_evenly(values, COUNTED).tolist()
    if not some:
        return {"distinct": 0.0, "common": None}
    counted = Counter(some)
    return {"distinct": float(len(counted)), "common": _round(max(counted.values()) / len(some))}


def _compute_top(values: Array) -> Statistics:
    """Return the most frequent top class of the vectors along the last axis, and the mean lead of the top classes."""
    if values.ndim == 0 or values.shape[-1] <= 1 or not values.size:
        return {}
    vectors = _sample_evenly(values.reshape(-1, values.shape[-1]), COMPARED // values.shape[-1])
    classes, number = np.unique(np.argmax(vectors, axis=-1), return_counts=True)
    highest = np.partition(vectors.astype(np.float64), -2, axis=-1)[:, -2:]
    with np.errstate(all="ignore"):
        lead = (highest[:, 1] - highest[:, 0]).mean()
    return {"top": float(classes[np.argmax(number)]), "lead": _round(lead)}


def _encode_label(array: Array) -> Statistics:
    """Return a code of the most frequent label: its checksum, from which the label cannot be read."""
    if not array.size:
        return {"top": None}
    label = Counter(map(str, _sample_evenly(array.ravel(), COUNTED).tolist())).most_common(1)[0][0]
    return {"top": float(zlib.crc32(label.encode(errors="replace")) % LABELS)}


def _sample_evenly(values: Array, most: int) -> Array:
    """Return at most so many evenly spaced elements of an array, one at least."""
    return values[:: math.ceil(len(values) / max(most, 1))] if len(values) > most else values


def _round(value: float) -> float | None:
    """Return a number to three digits, which compare alike on every machine; None for what is not finite."""
    number = float(f"{float(value):.{DIGITS}g}")
    return number if math.isfinite(number) else None
