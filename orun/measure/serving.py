"""The side of a worker process: it holds one session, and answers what `orun.measure.workers` asks of it."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from orun.environment.processes import die_with
from orun.errors import OrunError, UsageError
from orun.measure.benchmark_case import Opened, Subject
from orun.measure.binding import caller, submitter
from orun.measure.foreign_process import receive
from orun.measure.latency import cpu_cores, huge_pages, nodes
from orun.measure.latency.cpu_time import Times, timed, watched
from orun.measure.latency.cuda_streams import Stream, Streamed, stream_of, timed_on
from orun.measure.latency.nodes import Profile
from orun.measure.latency.warmup import Warmth, warm_up
from orun.measure.plugins import on_processor
from orun.measure.session import open_session

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

PATIENCE = 2.0  # seconds for memory to be moved, or as long as the session took to load where that is more
WATCHED_SECONDS = 0.03  # how long busy threads are looked for; in less, a stray interrupt looks like one


def serve(connection: Connection, subject: Subject) -> None:
    """Give one answer to each request, until the parent says that it is enough, or is gone."""
    gc.disable()
    die_with(os.getppid(), signal.SIGKILL)  # a process that rests would never see that nobody asks any more
    server = _Server(replace(subject, target=subject.target.here))
    while (message := receive(connection)) is not None:
        request, arguments = message
        try:
            answer = True, getattr(server, request)(*arguments)
        except OrunError as error:
            answer = False, error
        except Exception as error:  # noqa: BLE001 - the parent raises it; the runtime's errors share no other base
            traceback.print_exc()
            answer = False, _cannot_run(subject, error)
        connection.send(answer)


def _cannot_run(subject: Subject, error: Exception) -> UsageError:
    shapes = ", ".join(f"{name} {list(array.shape)} {array.dtype}" for name, array in subject.feeds.items())
    return UsageError(
        f"ONNX Runtime cannot run {subject.model.name} on {shapes}",
        why=str(error).strip().partition("\n")[0],
        hint="set `shape`, or give `inputs` that fit",
    )


class _Server:
    """Holds the session; one method to a request."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._session: InferenceSession
        self._run: Callable[[], object]
        self._stream: Stream
        self._submit: Callable[[], object]
        self._load = 0.0  # seconds
        self._counted = 0  # inferences since the profiler was turned on
        self._aside = set[int]()  # the numbers of those that are not asked for

    def open(self, warmup: float, longest: float) -> Opened:
        start = time.perf_counter()
        self._hold(open_session(self._subject.model, self._subject.target))
        self._load = time.perf_counter() - start
        first = float(timed(self._run, 1).wall[0])
        warmth = self._warm(warmup, longest)
        return Opened(
            load=self._load,
            first=first,
            each=warmth.each,
            work=watched(self._run, WATCHED_SECONDS),
            processor=self._on_processor,
            warm=warmth.seconds,
        )

    def time(self, count: int, seconds: float, resumed: float) -> Times:
        if resumed:
            self._set_aside(len(timed(self._run, sys.maxsize, resumed).wall))
        times = timed(self._run, count, seconds)
        self._counted += len(times.wall)
        return times

    def pin(self, core: int) -> None:
        cpu_cores.pin(core)

    def collapse(self) -> None:
        if self._on_processor:  # what an accelerator reads is not here
            huge_pages.collapse(max(self._load, PATIENCE))

    def profile(self, warmup: float) -> None:
        del self._session, self._run
        self._hold(open_session(self._subject.model, self._subject.target, profile=nodes.PREFIX))
        self._counted = 0
        self._aside.clear()
        self._warm(warmup)

    def nodes(self) -> Profile:
        return nodes.read(Path(self._session.end_profiling()), self._aside)

    def stream(self, warmup: float) -> None:
        del self._session, self._run
        self._stream, target = stream_of(self._subject.target)
        self._hold(open_session(self._subject.model, target))
        self._warm(warmup)
        self._submit = submitter(self._session, self._subject.feeds)

    def streamed(self, seconds: float) -> Streamed:
        return timed_on(self._stream, self._submit, seconds)

    def _hold(self, session: InferenceSession) -> None:
        self._session = session
        self._run = caller(session, self._subject.feeds, bound=self._subject.bound)

    @property
    def _on_processor(self) -> bool:
        return all(map(on_processor, self._subject.target.providers))

    def _warm(self, seconds: float, longest: float = 0.0) -> Warmth:
        warmth = warm_up(lambda: timed(self._run, 1), seconds, longest, processor=self._on_processor)
        self._set_aside(warmth.count)
        return warmth

    def _set_aside(self, count: int) -> None:
        """The latest inferences are none that were asked for."""
        self._aside.update(range(self._counted, self._counted + count))
        self._counted += count
