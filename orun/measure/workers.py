"""Worker processes: each holds a session of one model and times it on request.

On Linux a worker is forked from a process that has imported the runtime and not used it, so it costs only the session.
This process forks while it has a single thread. With more threads a fork server does: a lock that another thread holds
during the fork would never be released in the worker. Other systems spawn.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkContext, ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any

from orun.measure.benchmark_case import RESUMED_SECONDS, BenchmarkCase, SessionInfo, Worker
from orun.measure.foreign_process import ForeignProcess, end_process, send_request
from orun.measure.latency.cpu_time import Times
from orun.measure.latency.cuda_streams import StreamTimes
from orun.measure.latency.nodes import Profile
from orun.measure.worker_process import serve


class WorkerProcess(Worker):
    """Worker whose session is one of ONNX Runtime or of the model's own framework."""

    def __init__(self, case: BenchmarkCase) -> None:
        self._case = case
        self._rests = False
        self._process: BaseProcess | ForeignProcess
        if case.target.interpreter:
            self._process = ForeignProcess(case.target.interpreter, "orun.measure.worker_process:serve", case)
            self._connection = self._process.connection
            return
        context = choose_context()
        self._connection, theirs = context.Pipe()
        inherited = self._connection if context.get_start_method() == "fork" else None
        process = context.Process(target=_serve, args=(inherited, theirs, case, Path.cwd()), daemon=True)
        self._process = process
        process.start()
        theirs.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._signal(signal.SIGCONT)
        end_process(self._process, self._connection)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid or 0

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.is_alive()

    def open(self, warmup: float, longest: float = 0.0) -> SessionInfo:
        """Make the session, warm it up and observe it."""
        info: SessionInfo = self._ask("open", warmup, longest)
        return info

    def time(self, count: int, seconds: float = float("inf")) -> Times:
        """Time inferences."""
        times: Times = self._ask("time", count, seconds, RESUMED_SECONDS if self._rests else 0.0)
        return times

    def read_yardstick(self) -> float:
        """Read the yardstick in the process."""
        reading: float = self._ask("read_yardstick")
        return reading

    def rest(self) -> None:
        """Stop the process, except while it answers a request."""
        self._rests = True
        self._signal(signal.SIGSTOP)

    def pin(self, core: int) -> None:
        """Keep the thread that calls the session on a core."""
        self._ask("pin", core)

    def collapse(self) -> None:
        """Move the memory of a model on the CPU onto huge pages."""
        self._ask("collapse")

    def profile(self, warmup: float) -> None:
        """Make the session anew with the profiler on, and warm it up for `warmup` seconds."""
        self._ask("profile", warmup)

    def end_profile(self) -> Profile:
        """End profiling; return the time of each node in each inference timed since it began."""
        profile: Profile = self._ask("end_profile")
        return profile

    def open_stream(self, warmup: float) -> None:
        """Make the session anew on a stream of the device, and warm it up."""
        self._ask("open_stream", warmup)

    def time_stream(self, seconds: float) -> StreamTimes:
        """Time inferences on that stream."""
        times: StreamTimes = self._ask("time_stream", seconds)
        return times

    def _signal(self, number: signal.Signals) -> None:
        """Signal a process that rests, unless it has ended: another process may have its id then."""
        if self._rests and self.alive:
            with suppress(ProcessLookupError):  # it ended after the check
                os.kill(self.pid, number)

    def _ask(self, request: str, *arguments: Any) -> Any:
        self._signal(signal.SIGCONT)
        try:
            return send_request(self._process, self._connection, self._case.model.name, request, arguments)
        finally:
            self._signal(signal.SIGSTOP)


def choose_context() -> ForkContext | ForkServerContext | SpawnContext:
    """Return the way to start a process on this system."""
    if sys.platform != "linux":  # macOS has fork, but its system libraries do not survive it
        return get_context("spawn")
    if len(os.listdir("/proc/self/task")) == 1:  # noqa: PTH208 - names alone
        return get_context("fork")
    server = get_context("forkserver")
    server.set_forkserver_preload(["onnxruntime", __name__])
    return server


def _serve(parents: Connection | None, connection: Connection, case: BenchmarkCase, folder: Path) -> None:
    """Run a worker process of this Python.

    Args:
        parents: the parent's end of the connection, if it was inherited.
        connection: to the parent.
        case: the model to time.
        folder: the parent's working folder.
    """
    if parents:
        parents.close()  # an inherited copy would keep the pipe open after the parent's death
    os.chdir(folder)
    serve(connection, case)
