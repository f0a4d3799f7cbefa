"""Remotes of the drivers: one connection for each URL."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from orun.remote.connection import Connection
from orun.remote.options import Remote
from orun.remote.settings import resolve
from orun.remote.transfers import Transfers

T = TypeVar("T")


class Remotes:
    """Connections to remotes, with the keys of this machine.

    Args:
        folder: whose `pyproject.toml` names the keys that this machine trusts.
        wake: called by another thread when an operation has ended.
    """

    def __init__(self, folder: Path, wake: Callable[[], None]) -> None:
        self._folder = folder
        self._wake = wake
        self._connections: dict[str, Connection] = {}
        self._pending: list[Future[Any]] = []

    @property
    def busy(self) -> bool:
        """Whether an operation has not ended."""
        return any(not future.done() for future in self._pending)

    def submit(self, url: str, operation: Callable[[Transfers], T]) -> Future[T]:
        """Start an operation; its result may raise one of `orun.remote.connection.FAILURES`.

        Raises:
            UsageError: if the URL, or a key of this machine, is not usable.
        """
        if url not in self._connections:
            settings = resolve(Remote(url, "read-write", required=True), self._folder)
            assert settings, "a remote with a URL has settings"  # noqa: S101
            self._connections[url] = Connection(settings, lambda _: None, self._wake)
        future = self._connections[url].submit(operation)
        self._pending = [*(item for item in self._pending if not item.done()), future]
        return future

    def close(self) -> None:
        """Cancel all operations without waiting."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
