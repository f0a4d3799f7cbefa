"""Benchmark case: a model to measure with its target and inputs; the worker that times it; what its session is like."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import NDArray

from orun.core.targets import Target
from orun.measure.latency.cpu_time import Times, Work
from orun.measure.latency.cuda_streams import StreamTimes

if TYPE_CHECKING:
    from orun.measure.framework_model import Opener

MODEL, BASELINE = "model", "baseline"  # names of cases; any other is a reference
RESUMED_SECONDS = 0.01  # more than two ticks of a kernel with 250 ticks per second


@dataclass(frozen=True, eq=False)
class BenchmarkCase:
    """A model to measure.

    Attributes:
        model: path of its proto.
        target: where it runs.
        feeds: its inputs by name.
        bound: whether inputs and outputs are bound to the device beforehand. Copies are then not part of an inference.
        streamed: whether time on the device's stream is measured too.
        source: opens the model of another framework that runs in place of the ONNX model; None for ONNX Runtime.
    """

    model: Path
    target: Target
    feeds: Mapping[str, NDArray[Any]]
    bound: bool = False
    streamed: bool = False
    source: Opener | None = None


@dataclass(frozen=True)
class SessionInfo:
    """A session that is ready.

    Attributes:
        load: seconds to make it.
        first: seconds of the first inference.
        each: seconds of the fastest inference when warm, for planning.
        work: threads that work in an inference.
        processor: whether every node runs on the CPU, by whichever provider.
        warm: seconds of inference until it was warm.
        framework: what runs it if not ONNX Runtime: `PyTorch 2.13.0, eager`.
    """

    load: float
    first: float
    each: float
    work: Work
    processor: bool
    warm: float = 0.0
    framework: str = ""


class Worker(ABC):
    """Parent's side of a worker; a context manager that ends it.

    Every worker can open its session, time it and move its memory. Launches ask for the rest only if the method or the
    case needs it: `pin` and `read_yardstick` with the method `thread`, `rest` if several threads share cores, streams
    if the case is `streamed`.
    """

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    def open(self, warmup: float, longest: float = 0.0) -> SessionInfo:
        """Make the session, warm it up and observe it; `orun.measure.latency.warmup` explains both times."""

    @abstractmethod
    def time(self, count: int, seconds: float = float("inf")) -> Times:
        """Time inferences; see `orun.measure.latency.cpu_time.time_inferences`.

        After a rest, inferences for `RESUMED_SECONDS`, at least one, do not count: threads that wake together often
        share a core until a tick of the kernel moves one.
        """

    @abstractmethod
    def collapse(self) -> None:
        """Move the worker's memory onto huge pages where that is possible; see `orun.measure.latency.huge_pages`."""

    def rest(self) -> None:
        """Stop the process from now on, except while it answers a request.

        The threads of a session spin for up to 50 ms after an inference and would take cores from the other models.
        """
        raise NotImplementedError

    def pin(self, core: int) -> None:
        """Keep the thread that calls the session on a core."""
        raise NotImplementedError

    def read_yardstick(self) -> float:
        """Return what `orun.measure.latency.cpu_cores.read_yardstick` reads in the process."""
        raise NotImplementedError

    def open_stream(self, warmup: float) -> None:
        """Make the session anew on a stream of the device, and warm it up for `warmup` seconds."""
        raise NotImplementedError

    def time_stream(self, seconds: float) -> StreamTimes:
        """Time inferences on that stream; see `orun.measure.latency.cuda_streams.time_stream`."""
        raise NotImplementedError
