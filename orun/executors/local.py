"""Stages on this machine: each in a process forked from a server that has imported its libraries (see `zygote.py`)."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, Self

from orun.codec import decode, encode
from orun.executors.job import Finished, Job, JobResult, Progress

if TYPE_CHECKING:
    import selectors
    import subprocess

    from orun.executors.channel import Channel
    from orun.executors.messages import Trouble

Modules = tuple[str, ...]
CLOSE_PATIENCE = 3.0  # seconds that stopped stages are waited for; the servers kill them after two
LOG_TAIL = 2000  # bytes of what a dead server had printed that are shown


@dataclass
class Running:
    """A job under way.

    Attributes:
        job: the job.
        modules: the list of the server that runs it.
        process: the id of its process; 0 until it has started.
        cancelled: it is to be stopped.
        said: what it said of its end.
        written: files that it has opened for writing.
    """

    job: Job
    modules: Modules
    process: int = 0
    cancelled: bool = False
    said: JobResult | Trouble | None = None
    written: frozenset[str] = frozenset()


class LocalExecutor:
    """The executor of this machine, a context manager that closes itself; servers start when a job needs them."""

    def __init__(self) -> None:
        self._running: dict[str, Running] = {}
        self._servers: dict[Modules, Channel] = {}
        self._serving: set[Modules] = set()
        self._broken: set[Modules] = set()
        self._selector: selectors.BaseSelector | None = None
        self._root: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def start(self, job: Job) -> None:
        """Have a job run as soon as its libraries are imported; returns at once.

        Raises:
            OSError: when this machine lets no more processes or connections be made.
        """
        from orun.executors.preload import modules_of

        self._launch(job, modules_of(job))

    def _launch(self, job: Job, modules: Modules) -> None:
        for length in range(1, len(modules) + 1):
            if modules[:length] in self._broken:
                modules = modules[: length - 1]
                break
        server = self._server(modules)
        self._running[job.stage] = Running(job, modules)
        server.send({"run": encode(job)})

    def _server(self, modules: Modules) -> Channel:
        """The connection to the server that has imported these modules in this order; it is made when there is none."""
        from selectors import EVENT_READ

        from orun.executors.channel import Channel

        if modules in self._servers:
            return self._servers[modules]
        ours, theirs = Channel.pair()
        if modules:
            self._server(modules[:-1]).send({"grow": modules[-1]}, theirs.fileno())
        else:
            self._start_root(theirs.fileno())
        theirs.close()
        self._servers[modules] = ours
        self._watch().register(ours, EVENT_READ, modules)
        return ours

    def _watch(self) -> selectors.BaseSelector:
        import selectors

        self._selector = self._selector or selectors.DefaultSelector()
        return self._selector

    def _start_root(self, descriptor: int) -> None:
        import subprocess
        import tempfile

        self._reap_root()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the servers
        self._root = subprocess.Popen(
            [sys.executable, "-P", "-m", "orun.executors.zygote", str(descriptor)],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=_environment(os.environ),
            pass_fds=(descriptor,),
            start_new_session=True,  # Ctrl-C reaches the runner alone, which then cancels
        )

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

    def _hear(self, modules: Modules) -> list[Progress | Finished]:
        channel = self._servers[modules]
        happened = [event for message in channel.messages() for event in self._take(modules, message)]
        return happened + self._bury(modules) if channel.closed else happened

    def _take(self, modules: Modules, message: Mapping[str, Any]) -> list[Progress | Finished]:
        from orun.executors.messages import Ended, Trouble
        from orun.executors.outcome import outcome_of

        if "serving" in message:
            self._serving.add(modules)
            return []
        stage = message["stage"]
        running = self._running[stage]
        if "started" in message:
            running.process = message["started"]
        elif "progress" in message:
            return [Progress(stage, *message["progress"])]
        elif "result" in message:
            running.said = decode(JobResult, message["result"])
            running.written = frozenset(message["written"])
        elif "trouble" in message:
            running.said = decode(Trouble, message["trouble"])
        else:
            del self._running[stage]
            ended = decode(Ended, message["ended"])
            return [Finished(stage, outcome_of(running.job, running.said, running.written, ended))]
        return []

    def _bury(self, modules: Modules) -> list[Progress | Finished]:
        """A server is gone. When an import ended it, its jobs are started without: they meet the import themselves."""
        from orun.executors.failures import lost

        self._watch().unregister(self._servers[modules])
        self._servers.pop(modules).close()
        imported = modules in self._serving
        self._serving.discard(modules)
        happened: list[Progress | Finished] = []
        for stage, running in list(self._running.items()):
            if running.modules != modules:
                continue
            if modules and not imported:
                self._broken.add(modules)
                self._launch(running.job, modules)
                if running.cancelled:
                    self.cancel(stage)
                continue
            if running.process:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(running.process, signal.SIGKILL)
            del self._running[stage]
            happened.append(Finished(stage, lost(running.job, self._printed())))
        return happened

    def _printed(self) -> str:
        """The end of what the servers have printed."""
        if self._log is None:
            return ""
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - LOG_TAIL))
        return self._log.read().decode(errors="replace").strip()

    def cancel(self, stage: str) -> None:
        """Stop a job: SIGTERM to its group, and SIGKILL two seconds later to what is left."""
        if running := self._running.get(stage):
            running.cancelled = True
            self._servers[running.modules].send({"cancel": stage})

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
        self._reap_root()

    def _reap_root(self) -> None:
        """Wait for the end of the servers, whose connections are closed."""
        import subprocess

        if self._root is not None:
            try:
                self._root.wait(CLOSE_PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(self._root.pid, signal.SIGKILL)
                self._root.wait()
            self._root = None
        if self._log is not None:
            self._log.close()
            self._log = None


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of every stage: sets iterate alike in each run, and ONNX Runtime keeps to itself."""
    fixed = {"PYTHONHASHSEED": environment.get("PYTHONHASHSEED", "0"), "ORT_DISABLE_TELEMETRY": "1"}
    return {**environment, **fixed}
