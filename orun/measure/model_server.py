"""Process of a server that `release/server` made: on loopback, in an environment with the packages of its lock."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from orun.core.targets import Environment
from orun.environment import venv_builder, venvs
from orun.errors import UsageError
from orun.measure.served_model import ServedModel

START_SECONDS = 300.0  # large models load for minutes
STOP_SECONDS = 30.0
POLL_SECONDS = 0.05
LINES = 5  # of the server's log that a message shows
LOOPBACK = "127.0.0.1"
SETTINGS = "server.json"


class ModelServer:
    """Server of a folder, from the start of its process to its end; a context manager.

    Args:
        folder: folder of the server.
        log: file for its output.
        served: file of a model to serve in place of the folder's own.
        tell: called with a message before each slow step.

    Attributes:
        model: the model that it serves.
        pid: id of its process.
    """

    def __init__(
        self, folder: Path, log: Path, served: Path | None = None, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        environment = Environment("of the server", read_requirements(folder / "requirements.lock"))
        venv_builder.make(environment, tell)
        self._python = venvs.locate_python(venvs.locate_folder(environment))
        self._folder, self._log, self._served = folder, log, served
        name = json.loads((folder / SETTINGS).read_bytes())["name"]
        self.port = find_free_port()
        self.model = ServedModel(f"http://{LOOPBACK}:{self.port}", name)

    def __enter__(self) -> Self:
        # The folder is read-only, and no other package or log than the release's counts.
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    self._python,
                    self._folder / "runtime.py",
                    f"--http-port={self.port}",
                    "--grpc-port=0",
                    "--sample-log=",
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables | {"PYTHONDONTWRITEBYTECODE": "1"},
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    def stop(self) -> int:
        """End the process, after the requests that are under way; return its exit status."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _wait(self) -> None:
        end = time.monotonic() + START_SECONDS
        while not self.model.is_ready():
            if self._process.poll() is not None or time.monotonic() > end:
                lines = self._log.read_text("utf-8", "replace").strip().splitlines()
                raise UsageError(
                    f"the server of {self.model.name!r} does not start",
                    why="\n".join(lines[-LINES:]) or f"its process ended with {self._process.returncode}, silently",
                )
            time.sleep(POLL_SECONDS)


def read_requirements(lock: Path) -> tuple[str, ...]:
    """Return the requirements of a lock, each in one line with its hashes."""
    lines = (line.partition(" #")[0].strip() for line in lock.read_text("utf-8").replace("\\\n", " ").splitlines())
    return tuple(" ".join(line.split()) for line in lines if line and not line.startswith("#"))


def find_free_port() -> int:
    """Return a port of loopback that nothing uses now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
