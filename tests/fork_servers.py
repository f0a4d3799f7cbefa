"""Fork servers that outlive a run: runs of a session of tests share them, which saves their start and their imports.

A run of a test imports ONNX, ONNX Runtime or PyTorch in fork servers, as every run does; the next run forks its stages
from the same servers, as later stages of one run do. Runs in another environment have servers of their own.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from orun.environment.env_vars import build_stage_environment
from orun.executors import Finished, Job, LocalExecutor, Progress

MOST = 3  # environments whose servers are kept
Surroundings = tuple[object, ...]


class SharedExecutor(LocalExecutor):
    """Local executor that leaves its servers to the next run if no job is under way when its run ends."""

    def __init__(self, servers: ForkServers, surroundings: Surroundings) -> None:
        super().__init__()
        self._servers_of_tests = servers
        self._surroundings = surroundings
        self._under_way = set[str]()
        self._isolated = False

    def start(self, job: Job) -> None:
        self._under_way.add(job.stage)
        self._isolated |= job.interpreter is not None
        super().start(job)

    def wait(self, timeout: float | None = None) -> list[Progress | Finished]:
        messages = super().wait(timeout)
        self._under_way -= {message.stage for message in messages if isinstance(message, Finished)}
        return messages

    def __exit__(self, *error: object) -> None:
        if any(error) or self._under_way or self._isolated:
            self.close()
        else:
            self._servers_of_tests.keep(self._surroundings, self)


@dataclass
class ForkServers:
    """Executors between two runs, by what their servers inherit; that of the last run is the last one.

    Attributes:
        shared: whether runs may share them.
    """

    shared: bool = True
    _idle: dict[Surroundings, SharedExecutor] = field(default_factory=dict)
    _python: Mapping[str, str] = field(default_factory=lambda: _variables_of_python(build_stage_environment()))
    _process: int = field(default_factory=os.getpid)

    def lend(self) -> LocalExecutor:
        """Return the executor of a run; of its own if its servers would find other modules or end with a thread."""
        environment = build_stage_environment()
        usual = _variables_of_python(environment) == self._python and os.getpid() == self._process
        if not (self.shared and usual and threading.current_thread() is threading.main_thread()):
            return LocalExecutor()
        umask = os.umask(0)
        os.umask(umask)
        surroundings = (sys.executable, umask, *sorted(environment.items()))
        return self._idle.pop(surroundings, None) or SharedExecutor(self, surroundings)

    def keep(self, surroundings: Surroundings, executor: SharedExecutor) -> None:
        """Keep the executor of a run that has ended."""
        if surroundings in self._idle:  # of a run within that run
            executor.close()
            return
        self._idle[surroundings] = executor
        while len(self._idle) > MOST:
            self._idle.pop(next(iter(self._idle))).close()

    def close(self) -> None:
        """End all servers."""
        while self._idle:
            self._idle.popitem()[1].close()

    @contextmanager
    def separate(self) -> Iterator[None]:
        """Give every run within the block servers of its own."""
        self.shared = False
        try:
            yield
        finally:
            self.shared = True


def _variables_of_python(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that say which modules there are."""
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}
