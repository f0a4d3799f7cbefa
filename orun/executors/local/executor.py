"""Local executor: each stage in a process forked from a server that has imported its libraries."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, Self

from orun.core.serialization import Record, decode, encode
from orun.core.targets import Interpreter
from orun.environment.env_vars import build_stage_environment
from orun.executors.job import OPTIONS, Finished, Job, JobResult, Progress

if TYPE_CHECKING:
    import selectors
    import subprocess

    from orun.executors.local.channel import Channel
    from orun.executors.local.messages import Trouble

Modules = tuple[str, ...]
CLOSE_PATIENCE = 3.0  # seconds to wait for stopped stages; their servers kill them after two
LOG_TAIL = 2000  # bytes at the end of a dead server's log that are shown


class Server(Record, frozen=True):
    """Identity of a fork server: its Python (None for orun's own) and the modules that it has imported, in order."""

    interpreter: Interpreter | None
    modules: Modules

    def with_first(self, count: int) -> Server:
        """Return the server that has imported the first `count` of the modules."""
        return Server(self.interpreter, self.modules[:count])


@dataclass
class Root:
    """First server of a Python, which has imported nothing, and the log of all servers grown from it."""

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
        with contextlib.suppress(OSError):  # a full disk: nobody reads the log any more
            self.log.close()

    def read_log_tail(self) -> str:
        """Return the end of the log."""
        with contextlib.suppress(OSError):
            self.log.seek(max(0, self.log.seek(0, os.SEEK_END) - LOG_TAIL))
            return self.log.read().decode(errors="replace").strip()
        return ""


@dataclass
class Running:
    """Job under way.

    Attributes:
        job: the job.
        server: the server that runs it.
        cancelled: whether it is to be stopped.
        report: its process's report, once that has come.
        written: files that it opened for writing -> whether only to append.
    """

    job: Job
    server: Server
    cancelled: bool = False
    report: JobResult | Trouble | None = None
    written: Mapping[str, bool] = field(default_factory=dict)


class LocalExecutor:
    """Executor of this machine, a context manager that closes itself; servers start when a job needs them."""

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
        """Start a job as soon as its libraries are imported; return at once.

        Raises:
            OSError: if this machine allows no more processes or connections.
        """
        from orun.executors.local.preload import list_modules

        self._launch(job, Server(job.interpreter, list_modules(job)))

    def _launch(self, job: Job, server: Server) -> None:
        for count in range(1, len(server.modules) + 1):
            if server.with_first(count) in self._broken:
                server = server.with_first(count - 1)
                break
        channel = self._connect(server)
        self._running[job.stage] = Running(job, server)
        channel.send({"run": encode(job)})

    def _connect(self, server: Server) -> Channel:
        """Return the connection to a server; start the server if it does not run."""
        from selectors import EVENT_READ

        from orun.executors.local.channel import Channel

        if server in self._servers:
            return self._servers[server]
        ours, theirs = Channel.open_pair()
        if server.modules:
            self._connect(server.with_first(-1)).send({"grow": server.modules[-1]}, theirs.fileno())
        else:
            self._start_root(server.interpreter, theirs.fileno())
        theirs.close()
        self._servers[server] = ours
        self._open_selector().register(ours, EVENT_READ, server)
        return ours

    def _open_selector(self) -> selectors.BaseSelector:
        import selectors

        self._selector = self._selector or selectors.DefaultSelector()
        return self._selector

    def fileno(self) -> int:
        """Return the descriptor that is readable when `wait` has something to return, for another selector."""
        selector: Any = self._open_selector()
        descriptor: int = selector.fileno()  # which every selector has but that of `select`
        return descriptor

    def _start_root(self, interpreter: Interpreter | None, descriptor: int) -> None:
        import subprocess
        import tempfile

        if dead := self._roots.pop(interpreter, None):
            dead.reap()
        python = interpreter.python if interpreter else sys.executable
        log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the servers
        process = subprocess.Popen(
            [python, *OPTIONS, "-m", "orun.executors.local.zygote", str(descriptor)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=_build_environment(interpreter),
            pass_fds=(descriptor,),
            start_new_session=True,  # Ctrl-C reaches the runner alone, which then cancels
        )
        self._roots[interpreter] = Root(process, log)

    def wait(self, timeout: float | None = None) -> list[Progress | Finished]:
        """Return the messages since the last call; wait for the first, `timeout` seconds at most."""
        until = float("inf") if timeout is None else monotonic() + timeout
        messages: list[Progress | Finished] = []
        while self._running and not messages:
            left = until - monotonic()
            for key, _ in self._open_selector().select(None if left == float("inf") else max(left, 0.0)):
                messages += self._receive(key.data)
            if left <= 0:
                break
        return messages

    def _receive(self, server: Server) -> list[Progress | Finished]:
        channel = self._servers[server]
        messages = [message for raw in channel.receive_messages() if (message := self._handle(server, raw))]
        return messages + self._remove_dead(server) if channel.closed else messages

    def _handle(self, server: Server, message: Mapping[str, Any]) -> Progress | Finished | None:
        """Handle a message of a server; return what the runner must know of it."""
        from orun.executors.local.messages import Ended, Trouble
        from orun.executors.outcome import build_outcome

        if "serving" in message:
            self._serving.add(server)
            return None
        stage = message["stage"]
        running = self._running[stage]
        if "progress" in message:
            return Progress(stage, *message["progress"])
        if "result" in message:
            running.report = decode(JobResult, message["result"])
            running.written = message["written"]
        elif "trouble" in message:
            running.report = decode(Trouble, message["trouble"])
        elif "ended" in message:
            del self._running[stage]
            ended = decode(Ended, message["ended"])
            return Finished(stage, build_outcome(running.job, running.report, running.written, ended))
        return None

    def _remove_dead(self, server: Server) -> list[Progress | Finished]:
        """Remove a server that has died, and return its jobs as failed.

        If an import ended it, its jobs run in a server without that module, and fail when they import it themselves.
        """
        from orun.executors.failures import build_lost_supervisor_error

        self._open_selector().unregister(self._servers[server])
        self._servers.pop(server).close()
        imported = server in self._serving
        self._serving.discard(server)
        messages: list[Progress | Finished] = []
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
            root = self._roots.get(server.interpreter)
            log = root.read_log_tail() if root else ""
            messages.append(Finished(stage, build_lost_supervisor_error(running.job, log)))
        return messages

    def cancel(self, stage: str) -> None:
        """Stop a job: SIGTERM to its group, and SIGKILL two seconds later to what is left."""
        if running := self._running.get(stage):
            running.cancelled = True
            self._servers[running.server].send({"cancel": stage})

    def close(self) -> None:
        """Stop all running jobs, end the servers, and wait until everything has ended."""
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


def _build_environment(interpreter: Interpreter | None) -> dict[str, str]:
    """Return the environment of every stage in a Python; another one than orun's own needs the path to its modules."""
    path = {} if interpreter is None or interpreter.path is None else {"PYTHONPATH": interpreter.path}
    return build_stage_environment() | path
