"""Executors of an agent: two drivers may order stages of the same name, and an executor knows its jobs by name."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from orun.executors import Finished, LocalExecutor, Progress


@dataclass
class ExecutorPool:
    """Executors that are kept for the next stages, as the libraries that their servers have imported."""

    _executors: list[LocalExecutor] = field(default_factory=list)

    def take_free(self, busy: Collection[LocalExecutor]) -> LocalExecutor:
        """Return an executor that is not among the busy ones; start one if there is no other."""
        for executor in self._executors:
            if executor not in busy:
                return executor
        self._executors.append(LocalExecutor())
        return self._executors[-1]

    def receive_messages(self) -> Iterator[tuple[LocalExecutor, Progress | Finished]]:
        """Yield the messages that have arrived, with the executor of each."""
        for executor in self._executors:
            for message in executor.wait(0.0):
                yield executor, message

    def close(self) -> None:
        """Stop all stages, wait until they have ended, and forget what was imported."""
        for executor in self._executors:
            executor.close()
        self._executors.clear()
