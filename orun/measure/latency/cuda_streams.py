"""Inferences on a stream of a CUDA device, timed by events on the stream.

The inferences of a round are submitted without waiting for any of them, so the device goes from one to the next while
the host still submits. Delays of the host are not in the device's time while the host is ahead. If it is not (many
short kernels, nodes that fall back to the CPU), the device waits, and its time includes that.

The CUDA driver is called, not a CUDA runtime. It comes with the device, whatever runtime ONNX Runtime was built for,
and both share the device's primary context.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orun.core.serialization import replace
from orun.core.targets import GPU_PROVIDERS, Target
from orun.errors import OrunError, UsageError
from orun.measure.latency.cpu_time import Floats

DRIVER = "libcuda.so.1"
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING, as for ONNX Runtime's own streams
ROUND = 8  # inferences submitted at once: few enough for a device's queue of about 1000 kernels
FEWEST_ROUNDS = 2
OPTION = "user_compute_stream"  # of every provider of `GPU_PROVIDERS`


@dataclass(frozen=True, eq=False)
class StreamTimes:
    """Times of inferences on a stream.

    Attributes:
        device: time from the end of the inference before to the end of this one, seconds, `[n]`.
        host: CPU time of the calling thread for submitting it, seconds, `[n]`.
    """

    device: Floats
    host: Floats


class Driver:
    """Functions of the CUDA driver."""

    def __init__(self, library: str) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise UsageError(
                "cannot measure time on the device: this machine has no CUDA driver",
                why=str(error),
                hint="leave out `device_time`",
            ) from error
        self.call("cuInit", 0)

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            OrunError: if it returns an error.
        """
        if status := int(getattr(self._library, function)(*arguments)):
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            why = (text.value or b"unknown").decode(errors="replace")
            raise OrunError(f"the CUDA driver refused {function}", why=f"error {status}: {why}")

    def create_handle(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        """Call a function that puts a handle into its first argument; return the handle."""
        handle = ctypes.c_void_p()
        self.call(function, ctypes.byref(handle), *arguments)
        return handle


class Stream:
    """Stream of a device with events on it, by number. Each event can be recorded again.

    It lasts as long as the process, because sessions run on it until then.
    """

    def __init__(self, driver: Driver, device: int, events: int) -> None:
        number = ctypes.c_int()
        driver.call("cuDeviceGet", ctypes.byref(number), device)
        driver.call("cuCtxSetCurrent", driver.create_handle("cuDevicePrimaryCtxRetain", number))
        self._driver = driver
        self._stream = driver.create_handle("cuStreamCreate", NON_BLOCKING)
        self._events = [driver.create_handle("cuEventCreate", 0) for _ in range(events)]

    @property
    def address(self) -> int:
        """Address that ONNX Runtime takes as an option."""
        return self._stream.value or 0

    def record(self, number: int) -> None:
        """Put an event on the stream, behind the work submitted so far."""
        self._driver.call("cuEventRecord", self._events[number], self._stream)

    def wait(self, number: int) -> None:
        """Wait until the stream has reached an event."""
        self._driver.call("cuEventSynchronize", self._events[number])

    def measure_between(self, first: int, second: int) -> float:
        """Return the seconds between two events that the stream has reached."""
        milliseconds = ctypes.c_float()
        self._driver.call("cuEventElapsedTime", ctypes.byref(milliseconds), self._events[first], self._events[second])
        return milliseconds.value / 1e3


def has_stream(target: Target) -> bool:
    """Return whether the target's first provider accepts a stream to compute on."""
    return target.providers[0].name in GPU_PROVIDERS


def make_stream(target: Target) -> tuple[Stream, Target]:
    """Make a stream on the device of a target for which `has_stream`; return it and the target that computes on it.

    Raises:
        UsageError: if there is no CUDA driver.
        OrunError: if the driver refuses a call.
    """
    stream = Stream(Driver(DRIVER), int(target.providers[0].options.get("device_id", "0")), ROUND + 1)
    option = {OPTION: str(stream.address)}
    providers = tuple(
        replace(provider, options={**provider.options, **option}) if provider.name in GPU_PROVIDERS else provider
        for provider in target.providers
    )
    return stream, replace(target, providers=providers)


def time_stream(stream: Stream, submit: Callable[[], object], seconds: float) -> StreamTimes:
    """Time inferences on a stream: rounds of `ROUND` for `seconds`, at least `FEWEST_ROUNDS`.

    Args:
        stream: with `ROUND + 1` events.
        submit: puts an inference on the stream.
        seconds: time after which no further round begins.
    """
    device: list[float] = []
    host: list[int] = []
    end = time.perf_counter() + seconds
    while len(device) < FEWEST_ROUNDS * ROUND or time.perf_counter() < end:
        submit()  # does not count: keeps the device busy until the first inference that counts is submitted
        stream.record(0)
        for number in range(1, ROUND + 1):
            start = time.thread_time_ns()
            submit()
            host.append(time.thread_time_ns() - start)
            stream.record(number)
        stream.wait(ROUND)
        device += [stream.measure_between(number, number + 1) for number in range(ROUND)]
    return StreamTimes(np.array(device), np.array(host) / 1e9)


def concatenate_streams(parts: Sequence[StreamTimes]) -> StreamTimes:
    """Join sequences of inferences."""
    return StreamTimes(np.concatenate([part.device for part in parts]), np.concatenate([part.host for part in parts]))
