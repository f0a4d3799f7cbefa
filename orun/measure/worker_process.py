"""Worker process: it holds one session and serves the requests of `orun.measure.workers`."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orun.environment.processes import die_with
from orun.errors import UsageError
from orun.measure.benchmark_case import BenchmarkCase, SessionInfo
from orun.measure.binding import bind_inference, bind_submission
from orun.measure.foreign_process import serve_requests
from orun.measure.framework_model import FrameworkSession
from orun.measure.latency import huge_pages, nodes
from orun.measure.latency.cpu_cores import pin, read_yardstick
from orun.measure.latency.cpu_time import Times, observe_work, time_inferences
from orun.measure.latency.cuda_streams import Stream, StreamTimes, make_stream, time_stream
from orun.measure.latency.nodes import Profile
from orun.measure.latency.warmup import Warmth, warm_up
from orun.measure.plugins import is_on_processor
from orun.measure.session import check_placement, open_session, open_session_or_source
from orun.text.library_messages import shorten_message

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

COLLAPSE_SECONDS = 2.0  # for moving memory onto huge pages; as long as the session took to load if that is more
OBSERVE_SECONDS = 0.03  # for finding busy threads; in less time, an interrupt looks like a busy thread


def serve(connection: Connection, case: BenchmarkCase) -> None:
    """Serve a `Worker` until it ends the connection or is gone."""
    gc.disable()
    die_with(os.getppid(), signal.SIGKILL)  # a stopped process would never see that its parent is gone
    server = _CaseServer(replace(case, target=case.target.here))
    serve_requests(connection, server, lambda error: _build_failure_error(case, error))


def _build_failure_error(case: BenchmarkCase, error: Exception) -> UsageError:
    shapes = ", ".join(f"{name} {list(array.shape)} {array.dtype}" for name, array in case.feeds.items())
    return UsageError(
        f"{'its framework' if case.source else 'ONNX Runtime'} cannot run {case.model.name} on {shapes}",
        why=shorten_message(str(error)),
        hint="set `shape`, or give `inputs` that fit",
    )


class _CaseServer:
    """Holder of the session, with a method for each request."""

    def __init__(self, case: BenchmarkCase) -> None:
        self._case = case
        self._session: Any  # of ONNX Runtime or another framework
        self._run: Callable[[], object]
        self._stream: Stream
        self._submit: Callable[[], object]
        self._load = 0.0  # seconds
        self._count = 0  # inferences since the profiler was turned on
        self._excluded = set[int]()  # numbers of the inferences that do not count

    def open(self, warmup: float, longest: float) -> SessionInfo:
        case = self._case
        start = time.perf_counter()
        session = open_session_or_source(case.model, case.target, case.source, checked=False)
        self._hold(session)
        self._load = time.perf_counter() - start
        if not isinstance(session, FrameworkSession):
            check_placement(session, case.target, case.model)  # it may read the model again, which is no load
        first = float(time_inferences(self._run, 1).wall[0])
        warmth = self._warm(warmup, longest)
        return SessionInfo(
            load=self._load,
            first=first,
            each=warmth.each,
            work=observe_work(self._run, OBSERVE_SECONDS),
            processor=self._on_processor,
            warm=warmth.seconds,
            framework=self._session.title if isinstance(self._session, FrameworkSession) else "",
        )

    def time(self, count: int, seconds: float, resumed: float) -> Times:
        if resumed:
            self._exclude(len(time_inferences(self._run, sys.maxsize, resumed).wall))
        times = time_inferences(self._run, count, seconds)
        self._count += len(times.wall)
        return times

    def read_yardstick(self) -> float:
        return read_yardstick()

    def pin(self, core: int) -> None:
        pin(core)

    def collapse(self) -> None:
        if self._on_processor:  # an accelerator reads its own memory
            huge_pages.collapse(max(self._load, COLLAPSE_SECONDS))

    def profile(self, warmup: float) -> None:
        del self._session, self._run
        self._hold(open_session(self._case.model, self._case.target, profile=nodes.PREFIX))
        self._count = 0
        self._excluded.clear()
        self._warm(warmup)

    def end_profile(self) -> Profile:
        return nodes.read_profile(Path(self._session.end_profiling()), self._excluded)

    def open_stream(self, warmup: float) -> None:
        del self._session, self._run
        self._stream, target = make_stream(self._case.target)
        self._hold(open_session(self._case.model, target))
        self._warm(warmup)
        self._submit = bind_submission(self._session, self._case.feeds)

    def time_stream(self, seconds: float) -> StreamTimes:
        return time_stream(self._stream, self._submit, seconds)

    def _hold(self, session: InferenceSession | FrameworkSession) -> None:
        self._session = session
        if isinstance(session, FrameworkSession):
            self._run = session.bind(self._case.feeds)
        else:
            self._run = bind_inference(session, self._case.feeds, bound=self._case.bound)

    @property
    def _on_processor(self) -> bool:
        return all(map(is_on_processor, self._case.target.providers))

    def _warm(self, seconds: float, longest: float = 0.0) -> Warmth:
        warmth = warm_up(lambda: time_inferences(self._run, 1), seconds, longest, processor=self._on_processor)
        self._exclude(warmth.count)
        return warmth

    def _exclude(self, count: int) -> None:
        """Note that the latest `count` inferences do not count."""
        self._excluded.update(range(self._count, self._count + count))
        self._count += count
