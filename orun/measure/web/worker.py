"""Worker that times a model in onnxruntime-web, in place of the process of `orun.measure.workers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import numpy as np

from orun.measure.benchmark_case import BenchmarkCase, SessionInfo
from orun.measure.latency.cpu_time import Times, Work
from orun.measure.latency.timing_method import Method
from orun.measure.latency.warmup import warm_up
from orun.measure.web.session import WebRuntime, WebSession
from orun.measure.workers import Worker


class WebWorker(Worker):
    """Worker whose session is one of onnxruntime-web, in a process of its own.

    Args:
        runtime: what runs the model.
        case: the model and its inputs.
        external_data: names of its files with external data.
    """

    def __init__(self, runtime: WebRuntime, case: BenchmarkCase, external_data: tuple[str, ...]) -> None:
        self._case = case
        self._rests = False
        self._threads = runtime.threads
        self._session = WebSession(runtime, case.model, external_data).__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.__exit__(kind, error, trace)

    def _ask(self, request: str, *arguments: Any) -> Any:
        answers: Mapping[str, Callable[..., Any]] = {"open": self._open, "time": self._time, "collapse": lambda: None}
        return answers[request](*arguments)

    def _open(self, warmup: float, longest: float) -> SessionInfo:
        self._session.bind(self._case.feeds)
        first = float(self._time(1).wall[0])
        warmth = warm_up(lambda: self._time(1), warmup, longest, processor=self._threads == 1)
        alone = Work(process=1.0, thread=1.0, awake=1.0, most=1.0, busy=self._threads)
        return SessionInfo(
            self._session.opened.load / 1000, first, warmth.each, alone, processor=True, warm=warmth.seconds
        )

    def _time(self, count: int, seconds: float = float("inf"), resumed: float = 0.0) -> Times:
        del resumed  # it never rests
        wall, cpu = (np.array(times) for times in self._session.time(count, seconds))
        return Times(wall, cpu, cpu, None)


def method_of(runtime: WebRuntime) -> Method:
    """Return the time that models are compared by: CPU time where one thread works, wall time otherwise."""
    return "process" if runtime.threads == 1 else "wall"
