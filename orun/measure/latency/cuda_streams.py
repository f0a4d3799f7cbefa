"""Inferences on a stream of a CUDA device, timed by events on it.

The inferences of a round are put on the stream without waiting for any of them, so that the device goes from one to
the next while the host is still submitting: what delays the host is not in the time of the device, as long as the host
is ahead. Where it is not (many short kernels, nodes that fall back to the CPU), the device waits and its time says so.

The CUDA driver is called, not a CUDA runtime: it comes with the device, whatever version of the runtime ONNX Runtime
was built for, and shares a device's primary context with it.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from orun.core.serialization import replace
from orun.core.targets import GPU_PROVIDERS, Target
from orun.errors import OrunError, UsageError
from orun.measure.latency.cpu_time import Floats

DRIVER = "libcuda.so.1"
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: as ONNX Runtime makes its own
ROUND = 8  # inferences that are put on the stream at once: few enough for the queue of a device, which has some 1000
FEWEST_ROUNDS = 2
OPTION = "user_compute_stream"  # of every provider of `GPU_PROVIDERS`


@dataclass(frozen=True, eq=False)
class Streamed:
    """Inferences on a stream.

    Attributes:
        device: time of each from the end of the one before to its own on the stream, seconds, `[n]`.
        host: CPU time of the calling thread for submitting each, seconds, `[n]`.
    """

    device: Floats
    host: Floats


class Marks(Protocol):
    """What tells time on a stream: so many marks, which are set again and again."""

    def set(self, place: int) -> None:
        """Put a mark on the stream, behind what was put there."""

    def wait(self, place: int) -> None:
        """Wait until the stream has come to a mark."""

    def between(self, first: int, second: int) -> float:
        """Seconds from one mark to another that the stream has come to."""


class Driver:
    """The CUDA driver's functions; each raises what it refuses."""

    def __init__(self, library: str) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise UsageError(
                "the time of the device cannot be told: there is no CUDA driver here",
                why=str(error),
                hint="leave out `device_time`",
            ) from error
        self.call("cuInit", 0)

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            OrunError: when it returns an error.
        """
        if status := int(getattr(self._library, function)(*arguments)):
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            why = (text.value or b"unknown").decode(errors="replace")
            raise OrunError(f"the CUDA driver refused {function}", why=f"error {status}: {why}")

    def handle(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        """What a function makes that puts a handle into its first argument."""
        made = ctypes.c_void_p()
        self.call(function, ctypes.byref(made), *arguments)
        return made


class Stream:
    """A stream of a device, and marks on it. Both last as long as the process: sessions run on it until then."""

    def __init__(self, driver: Driver, device: int, marks: int) -> None:
        number = ctypes.c_int()
        driver.call("cuDeviceGet", ctypes.byref(number), device)
        driver.call("cuCtxSetCurrent", driver.handle("cuDevicePrimaryCtxRetain", number))
        self._driver = driver
        self._stream = driver.handle("cuStreamCreate", NON_BLOCKING)
        self._events = [driver.handle("cuEventCreate", 0) for _ in range(marks)]

    @property
    def address(self) -> int:
        """By which ONNX Runtime is told to use it."""
        return self._stream.value or 0

    def set(self, place: int) -> None:
        """See `Marks`."""
        self._driver.call("cuEventRecord", self._events[place], self._stream)

    def wait(self, place: int) -> None:
        """See `Marks`."""
        self._driver.call("cuEventSynchronize", self._events[place])

    def between(self, first: int, second: int) -> float:
        """See `Marks`."""
        milliseconds = ctypes.c_float()
        self._driver.call("cuEventElapsedTime", ctypes.byref(milliseconds), self._events[first], self._events[second])
        return milliseconds.value / 1e3


def has_stream(target: Target) -> bool:
    """Whether the target's first provider computes on a stream that it can be given."""
    return target.providers[0].name in GPU_PROVIDERS


def stream_of(target: Target) -> tuple[Stream, Target]:
    """A stream on the device of a target for which `has_stream`, and the target that computes on it.

    Raises:
        UsageError: when there is no CUDA driver.
        OrunError: when it refuses something.
    """
    stream = Stream(Driver(DRIVER), int(target.providers[0].options.get("device_id", "0")), ROUND + 1)
    given = {OPTION: str(stream.address)}
    providers = tuple(
        replace(one, options={**one.options, **given}) if one.name in GPU_PROVIDERS else one for one in target.providers
    )
    return stream, replace(target, providers=providers)


def timed_on(marks: Marks, submit: Callable[[], object], seconds: float) -> Streamed:
    """Time inferences on a stream: rounds of `ROUND` for so many seconds, at least `FEWEST_ROUNDS`.

    Args:
        marks: `ROUND + 1` of them.
        submit: puts an inference on the stream.
        seconds: after which no further round begins.
    """
    device: list[float] = []
    host: list[int] = []
    end = time.perf_counter() + seconds
    while len(device) < FEWEST_ROUNDS * ROUND or time.perf_counter() < end:
        submit()  # keeps the device busy until the first of those that count is there
        marks.set(0)
        for place in range(1, ROUND + 1):
            start = time.thread_time_ns()
            submit()
            host.append(time.thread_time_ns() - start)
            marks.set(place)
        marks.wait(ROUND)
        device += [marks.between(place, place + 1) for place in range(ROUND)]
    return Streamed(np.array(device), np.array(host) / 1e9)


def together(parts: Sequence[Streamed]) -> Streamed:
    """Several lots as one."""
    return Streamed(np.concatenate([one.device for one in parts]), np.concatenate([one.host for one in parts]))
