"""Worker processes that hold one session of one model each and time it on request.

On Linux a worker is forked from a process that has imported the runtime and not used it, so that it costs the session
alone: from this one while it has no other thread, else from a server that does nothing but fork, because what a thread
of this process holds at that moment, no thread of the worker would ever let go. Elsewhere it is spawned.
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
from typing import Any, Self

from orun.errors import OrunError
from orun.measure.benchmark_case import Opened, Subject
from orun.measure.foreign_process import Process
from orun.measure.latency.cpu_time import Times
from orun.measure.latency.cuda_streams import Streamed
from orun.measure.latency.nodes import Profile
from orun.measure.serving import serve

CLOSE_SECONDS = 10.0
RESUMED_SECONDS = 0.01  # two ticks of a kernel that has 250 in a second


class Worker:
    """The parent's side of a worker process; a context manager."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._rests = False
        self._process: BaseProcess | Process
        if subject.target.interpreter:
            self._process = Process(subject.target.interpreter, "orun.measure.serving:serve", subject)
            self._connection = self._process.connection
            return
        context = _context()
        self._connection, theirs = context.Pipe()
        inherited = self._connection if context.get_start_method() == "fork" else None
        process = context.Process(target=_serve, args=(inherited, theirs, subject, Path.cwd()), daemon=True)
        self._process = process
        process.start()
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._signal(signal.SIGCONT)
        with suppress(OSError):  # it may have died already
            self._connection.send(None)
        self._connection.close()
        self._process.join(CLOSE_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid or 0

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.is_alive()

    def open(self, warmup: float, longest: float = 0.0) -> Opened:
        """Make the session, warm it up, and look at it; see `orun.measure.latency.warmup` for both times."""
        opened: Opened = self._ask("open", warmup, longest)
        return opened

    def time(self, count: int, seconds: float = float("inf")) -> Times:
        """Time inferences one after another; see `orun.measure.latency.cpu_time.timed`.

        Where the process rests in between, inferences for `RESUMED_SECONDS` come before, at least one, that do not
        count: threads that wake together often find themselves on one core, until a tick of the kernel parts them.
        """
        times: Times = self._ask("time", count, seconds, RESUMED_SECONDS if self._rests else 0.0)
        return times

    def rest(self) -> None:
        """Have the process stopped from now on, but for the time in which it answers.

        The threads of a session look for work for up to 50 ms after an inference, and would take their cores from
        the other models meanwhile.
        """
        self._rests = True
        self._signal(signal.SIGSTOP)

    def pin(self, core: int) -> None:
        """Keep the thread that calls the session on a core."""
        self._ask("pin", core)

    def collapse(self) -> None:
        """Move its memory onto huge pages; see `orun.measure.latency.huge_pages`."""
        self._ask("collapse")

    def profile(self, warmup: float) -> None:
        """Make the session anew with the profiler on, and warm it up for so many seconds."""
        self._ask("profile", warmup)

    def nodes(self) -> Profile:
        """End profiling; the time of each node in each inference that was timed since."""
        profiled: Profile = self._ask("nodes")
        return profiled

    def stream(self, warmup: float) -> None:
        """Make the session anew on a stream of the device, and warm it up for so many seconds."""
        self._ask("stream", warmup)

    def streamed(self, seconds: float) -> Streamed:
        """Time inferences on that stream; see `orun.measure.latency.cuda_streams.timed_on`."""
        times: Streamed = self._ask("streamed", seconds)
        return times

    def _signal(self, number: signal.Signals) -> None:
        """Signal a process that rests, unless it has ended: its id may be another's then."""
        if self._rests and self.alive:
            with suppress(ProcessLookupError):  # it has ended since then
                os.kill(self.pid, number)

    def _ask(self, request: str, *arguments: Any) -> Any:
        self._signal(signal.SIGCONT)
        try:
            self._connection.send((request, arguments))
            good, answer = self._connection.recv()
        except (EOFError, ConnectionError, BrokenPipeError) as error:
            self._process.join(CLOSE_SECONDS)
            code = self._process.exitcode
            name = self._subject.model.name
            raise OrunError(
                f"the process that runs {name} died", why=f"exit status {code} in request {request!r}"
            ) from error
        self._signal(signal.SIGSTOP)
        if not good:
            raise answer
        return answer


def _context() -> ForkContext | ForkServerContext | SpawnContext:
    """How a process is started here."""
    if sys.platform != "linux":  # fork would be there on macOS too, but its system libraries do not survive it
        return get_context("spawn")
    if len(os.listdir("/proc/self/task")) == 1:  # noqa: PTH208 - names alone
        return get_context("fork")
    server = get_context("forkserver")
    server.set_forkserver_preload(["onnxruntime", __name__])
    return server


def _serve(parents: Connection | None, connection: Connection, subject: Subject, folder: Path) -> None:
    """The side of a worker of this Python.

    Args:
        parents: the other end of the connection, where it was inherited.
        connection: to the parent.
        subject: what is timed.
        folder: the parent's working folder.
    """
    if parents:
        parents.close()  # its copy here would keep the pipe open after the parent's death
    os.chdir(folder)
    serve(connection, subject)
