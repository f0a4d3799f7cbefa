"""Local executor: each stage in a process forked from a server that has imported its libraries."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, Self

from orun.core.serialization import Record, decode, encode, field
from orun.core.targets import Interpreter
from orun.environment.env_vars import told
from orun.executors.job import OPTIONS, Finished, Job, JobResult, Progress

if TYPE_CHECKING:
    import selectors
    import subprocess

    from orun.executors.local.channel import Channel
    from orun.executors.local.messages import Trouble

Modules = tuple[str, ...]
CLOSE_PATIENCE = 3.0  # seconds that stopped stages are waited for; the servers kill them after two
LOG_TAIL = 2000  # bytes of what a dead server had printed that are shown


class Server(Record, frozen=True):
    """Which fork server: its Python, orun's own when that is None, and the modules that it has imported, in order."""

    interpreter: Interpreter | None
    modules: Modules

    def after(self, count: int) -> Server:
        """The server that has imported the first so many of the modules."""
        return Server(self.interpreter, self.modules[:count])


@dataclass
class Root:
    """The server of a Python that has imported nothing, and what it and those grown from it print."""

    process: subprocess.Popen[bytes]
    log: IO[bytes]

    def reap(self) -> None:
        """Wait for the end of the servers, whose connections are closed."""
        import subprocess

        try:
            self.process.wait(CLOSE_PATIENCE)
        except subprocess.TimeoutExpired:
            from orun.environment import processes

            processes.end_tree(self.process.pid, CLOSE_PATIENCE)
            self.process.wait()
        with contextlib.suppress(OSError):  # a full disk: nobody reads it any more
            self.log.close()

    def printed(self) -> str:
        """The end of what they have printed."""
        with contextlib.suppress(OSError):
            self.log.seek(max(0, self.log.seek(0, os.SEEK_END) - LOG_TAIL))
            return self.log.read().decode(errors="replace").strip()
        return ""


@dataclass
class Running:
    """A job under way.

    Attributes:
        job: the job.
        server: the server that runs it.
        cancelled: it is to be stopped.
        said: what it said of its end.
        written: files that it has opened for writing -> whether only to add to their end.
    """

    job: Job
    server: Server
    cancelled: bool = False
    said: JobResult | Trouble | None = None
    written: Mapping[str, bool] = field(default_factory=dict)


class LocalExecutor:
    """The executor of this machine, a context manager that closes itself; servers start when a job needs them."""

    def __init__(self) -> None:
        self._running: dict[str, Running] = {}
        self._servers: dict[Server, Channel] = {}
        self._serving: set[Server] = set()
        self._broken: set[Server] = set()
        self._selector: selectors.BaseSelector | None = None
        self._roots: dict[Interpreter | None, Root] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def start(self, job: Job) -> None:
        """Have a job run as soon as its libraries are imported; returns at once.

        Raises:
            OSError: when this machine lets no more processes or connections be made.
        """
        from orun.executors.local.preload import modules_of

        self._launch(job, Server(job.interpreter, modules_of(job)))

    def _launch(self, job: Job, server: Server) -> None:
        for length in range(1, len(server.modules) + 1):
            if server.after(length) in self._broken:
                server = server.after(length - 1)
                break
        channel = self._connection(server)
        self._running[job.stage] = Running(job, server)
        channel.send({"run": encode(job)})

    def _connection(self, server: Server) -> Channel:
        """The connection to a server; it is started when it does not run."""
        from selectors import EVENT_READ

        from orun.executors.local.channel import Channel

        if server in self._servers:
            return self._servers[server]
        ours, theirs = Channel.pair()
        if server.modules:
            self._connection(server.after(-1)).send({"grow": server.modules[-1]}, theirs.fileno())
        else:
            self._start_root(server.interpreter, theirs.fileno())
        theirs.close()
        self._servers[server] = ours
        self._watch().register(ours, EVENT_READ, server)
        return ours

    def _watch(self) -> selectors.BaseSelector:
        import selectors

        self._selector = self._selector or selectors.DefaultSelector()
        return self._selector

    def _start_root(self, interpreter: Interpreter | None, descriptor: int) -> None:
        import subprocess
        import tempfile

        if dead := self._roots.pop(interpreter, None):
            dead.reap()
        log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the servers
        process = subprocess.Popen(
            [
                interpreter.python if interpreter else sys.executable,
                *OPTIONS,
                "-m",
                "orun.executors.local.zygote",
                str(descriptor),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=_environment(interpreter),
            pass_fds=(descriptor,),
            start_new_session=True,  # Ctrl-C reaches the runner alone, which then cancels
        )
        self._roots[interpreter] = Root(process, log)

    def wait(self, timeout: float | None = None) -> list[Progress | Finished]:
        """What happened since the last call, waiting at most `timeout` seconds; at once when no job is running."""
        until = float("inf") if timeout is None else monotonic() + timeout
        happened: list[Progress | Finished] = []
        while self._running and not happened:
            left = until - monotonic()
            for key, _ in self._watch().select(None if left == float("inf") else max(left, 0.0)):
                happened += self._hear(key.data)
            if left <= 0:
                break
        return happened

    def _hear(self, server: Server) -> list[Progress | Finished]:
        channel = self._servers[server]
        happened = [event for message in channel.messages() for event in self._take(server, message)]
        return happened + self._bury(server) if channel.closed else happened

    def _take(self, server: Server, message: Mapping[str, Any]) -> list[Progress | Finished]:
        from orun.executors.local.messages import Ended, Trouble
        from orun.executors.outcome import outcome_of

        if "serving" in message:
            self._serving.add(server)
            return []
        stage = message["stage"]
        running = self._running[stage]
        if "started" in message:
            return []
        if "progress" in message:
            return [Progress(stage, *message["progress"])]
        if "result" in message:
            running.said = decode(JobResult, message["result"])
            running.written = message["written"]
        elif "trouble" in message:
            running.said = decode(Trouble, message["trouble"])
        else:
            del self._running[stage]
            ended = decode(Ended, message["ended"])
            return [Finished(stage, outcome_of(running.job, running.said, running.written, ended))]
        return []

    def _bury(self, server: Server) -> list[Progress | Finished]:
        """A server is gone. When an import ended it, its jobs are started without: they meet the import themselves."""
        from orun.executors.failures import lost

        self._watch().unregister(self._servers[server])
        self._servers.pop(server).close()
        imported = server in self._serving
        self._serving.discard(server)
        happened: list[Progress | Finished] = []
        for stage, running in list(self._running.items()):
            if running.server != server:
                continue
            if server.modules and not imported:
                self._broken.add(server)
                self._launch(running.job, server)
                if running.cancelled:
                    self.cancel(stage)
                continue
            del self._running[stage]
            happened.append(Finished(stage, lost(running.job, self._printed(server))))
        return happened

    def _printed(self, server: Server) -> str:
        """The end of what a server and those beside it have printed."""
        root = self._roots.get(server.interpreter)
        return root.printed() if root else ""

    def cancel(self, stage: str) -> None:
        """Stop a job: SIGTERM to its group, and SIGKILL two seconds later to what is left."""
        if running := self._running.get(stage):
            running.cancelled = True
            self._servers[running.server].send({"cancel": stage})

    def close(self) -> None:
        """Stop what still runs, end the servers, and wait until all of it is gone."""
        for stage in self._running:
            self.cancel(stage)
        until = monotonic() + CLOSE_PATIENCE
        while self._running and monotonic() < until:
            self.wait(until - monotonic())
        self._running.clear()
        self._serving.clear()
        for channel in self._servers.values():
            channel.close()
        self._servers.clear()
        if self._selector:
            self._selector.close()
            self._selector = None
        for root in self._roots.values():
            root.reap()
        self._roots.clear()


def _environment(interpreter: Interpreter | None) -> dict[str, str]:
    """The environment of every stage in a Python; where that is not orun's own, its modules are elsewhere."""
    path = {} if interpreter is None or interpreter.path is None else {"PYTHONPATH": interpreter.path}
    return told() | path
