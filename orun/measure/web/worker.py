"""Worker that times a model in onnxruntime-web."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import numpy as np

from orun.measure.benchmark_case import BenchmarkCase, SessionInfo, Worker
from orun.measure.latency.cpu_time import Times, Work
from orun.measure.latency.timing_method import Method
from orun.measure.latency.warmup import warm_up
from orun.measure.web.session import WebRuntime, WebSession


class WebWorker(Worker):
    """Worker whose session is one of onnxruntime-web, in a process of Node.js or Chromium.

    Args:
        runtime: what runs the model.
        case: the model and its inputs.
        external_data: names of its files with external data.
    """

    def __init__(self, runtime: WebRuntime, case: BenchmarkCase, external_data: tuple[str, ...]) -> None:
        self._runtime = runtime
        self._feeds = case.feeds
        self._session = WebSession(runtime, case.model, external_data)

    def __enter__(self) -> Self:
        self._session.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.__exit__(kind, error, trace)

    def open(self, warmup: float, longest: float = 0.0) -> SessionInfo:
        """Give the session its inputs, and warm it up. The observed work is that of a thread which works alone."""
        threads, opened = self._runtime.threads, self._session.opened
        self._session.bind(self._feeds)
        first = float(self.time(1).wall[0])
        warmth = warm_up(lambda: self.time(1), warmup, longest, processor=threads == 1)
        return SessionInfo(
            load=opened.load / 1000,
            first=first,
            each=warmth.each,
            work=Work(process=1.0, thread=1.0, awake=1.0, most=1.0, busy=threads),
            processor=True,
            warm=warmth.seconds,
            framework=f"onnxruntime-web {self._runtime.package.version}, {opened.host}, threads: {threads}",
        )

    def time(self, count: int, seconds: float = float("inf")) -> Times:
        """Time inferences."""
        wall, cpu = (np.array(times) for times in self._session.time(count, seconds))
        return Times(wall, cpu, cpu, None)

    def collapse(self) -> None:
        """Do nothing: the runtime has the memory."""


def choose_method(runtime: WebRuntime) -> Method:
    """Return the time that models are compared by: CPU time where one thread works, wall time otherwise."""
    return "process" if runtime.threads == 1 else "wall"
