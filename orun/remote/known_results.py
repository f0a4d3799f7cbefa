"""Results known to be in a remote, so that each is offered once: `index/remote-<digest of the URL>.txt`.

One line a result, appended. The file may be deleted at any time: then the remote is asked again.
"""

from __future__ import annotations

import os
from pathlib import Path

from orun.fs.digests import digest_bytes
from orun.fs.durable import write_all
from orun.fs.os_errors import convert_os_errors
from orun.store import Action


class KnownResults:
    """The results of a store that are known to be in one remote."""

    def __init__(self, store: Path, url: str) -> None:
        self._path = store / "index" / f"remote-{digest_bytes(url.encode())[:16]}.txt"
        self._loaded: set[str] | None = None

    def __contains__(self, action: Action) -> bool:
        return _line(action) in self._lines()

    def add(self, action: Action) -> None:
        """Note that a result is in the remote; StoreError if that cannot be written."""
        line = _line(action)
        if line in self._lines():
            return
        with convert_os_errors("note what is in the remote", self._path):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                write_all(descriptor, f"{line}\n".encode("ascii"))
            finally:
                os.close(descriptor)
        self._lines().add(line)

    def _lines(self) -> set[str]:
        if self._loaded is None:
            try:
                self._loaded = set(self._path.read_text(encoding="ascii", errors="replace").split("\n"))
            except OSError:
                self._loaded = set()
        return self._loaded


def _line(action: Action) -> str:
    return f"{action.key} {action.tree}"
