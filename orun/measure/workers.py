"""Worker processes that hold one session of one model each and time it on request.

On Linux a worker is forked from a process that has imported the runtime and not used it, so that it costs the session
alone: from this one while it has no other thread, else from a server that does nothing but fork, because what a thread
of this process holds at that moment, no thread of the worker would ever let go. Elsewhere it is spawned.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkContext, ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import NDArray

from orun.errors import OrunError, UsageError
from orun.measure import machine, nodes
from orun.measure.binding import caller, submitter
from orun.measure.elsewhere import Process, receive
from orun.measure.nodes import Profile
from orun.measure.oncpu import Times, Work, timed, watched
from orun.measure.plugins import on_processor
from orun.measure.session import open_session
from orun.measure.streams import Stream, Streamed, stream_of, timed_on
from orun.measure.warmup import Warmth, warm_up
from orun.targets import Target

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

CLOSE_SECONDS = 10.0
WATCHED_SECONDS = 0.03  # how long busy threads are looked for; in less, a stray interrupt looks like one
CPU_PROVIDER = "CPUExecutionProvider"


@dataclass(frozen=True, eq=False)
class Subject:
    """A model to be measured.

    Attributes:
        model: path of its proto.
        target: where it runs.
        feeds: its inputs by name.
        bound: whether inputs and outputs are bound to the device beforehand, and copies not part of an inference.
        streamed: whether time on the device's stream is told as well.
    """

    model: Path
    target: Target
    feeds: Mapping[str, NDArray[Any]]
    bound: bool = False
    streamed: bool = False


@dataclass(frozen=True)
class Opened:
    """A session that is ready.

    Attributes:
        load: seconds to make it.
        first: seconds of the first inference.
        each: seconds of the fastest inference when warm, for planning.
        work: who works in an inference.
        host: whether every node runs on the CPU provider.
        processor: whether every node runs on the processor, by whichever provider.
        warm: seconds of inference until it was warm.
    """

    load: float
    first: float
    each: float
    work: Work
    host: bool
    processor: bool
    warm: float = 0.0


class Worker:
    """The parent's side of a worker process; a context manager."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._process: BaseProcess | Process
        if subject.target.interpreter:
            self._process = Process(subject.target.interpreter, "orun.measure.workers:serve", subject)
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
        """Make the session, warm it up, and look at it; see `orun.measure.warmup` for both times."""
        opened: Opened = self._ask("open", warmup, longest)
        return opened

    def time(self, count: int, seconds: float = float("inf")) -> Times:
        """Time inferences one after another; see `orun.measure.oncpu.timed`."""
        times: Times = self._ask("time", count, seconds)
        return times

    def pin(self, core: int) -> None:
        """Keep the thread that calls the session on a core."""
        self._ask("pin", core)

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
        """Time inferences on that stream; see `orun.measure.streams.timed_on`."""
        times: Streamed = self._ask("streamed", seconds)
        return times

    def _ask(self, request: str, *arguments: Any) -> Any:
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


def serve(connection: Connection, subject: Subject) -> None:
    """The worker's side: one answer to each request, until the parent says that it is enough, or is gone."""
    gc.disable()
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
        self._counted = 0  # inferences since the profiler was turned on
        self._skipped = 0  # of them, for warming up

    def open(self, warmup: float, longest: float) -> Opened:
        start = time.perf_counter()
        self._hold(open_session(self._subject.model, self._subject.target))
        load = time.perf_counter() - start
        first = float(timed(self._run, 1).wall[0])
        warmth = self._warm(warmup, longest)
        return Opened(
            load=load,
            first=first,
            each=warmth.each,
            work=watched(self._run, WATCHED_SECONDS),
            host=self._session.get_providers() == [CPU_PROVIDER],
            processor=self._on_processor,
            warm=warmth.seconds,
        )

    def time(self, count: int, seconds: float) -> Times:
        times = timed(self._run, count, seconds)
        self._counted += len(times.wall)
        return times

    def pin(self, core: int) -> None:
        machine.pin(core)

    def profile(self, warmup: float) -> None:
        del self._session, self._run
        self._hold(open_session(self._subject.model, self._subject.target, profile=nodes.PREFIX))
        self._skipped = self._counted = 0
        self._warm(warmup)
        self._skipped = self._counted

    def nodes(self) -> Profile:
        return nodes.read(Path(self._session.end_profiling()), self._skipped)

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
        self._counted += warmth.count
        return warmth
