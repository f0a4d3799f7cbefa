"""Results and objects known to be in a remote, so that each is offered once: `index/remote-<digest of the URL>.txt`.

One line each, appended. With signing keys there is a further file for these keys, because results that were pushed with
others, or unsigned, are refused there. The files may be deleted at any time: then the remote is asked again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from orun.fs.digests import digest_bytes
from orun.fs.durable import write_all
from orun.fs.os_errors import convert_os_errors
from orun.remote.settings import Settings
from orun.remote.trust import read_keyring
from orun.store import Action
from orun.store.checksummed_json import encode_canonical

OBJECTS = "remote-objects-"  # begins the names of files that list objects


class KnownLines:
    """Lines of a file that only grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loaded: set[str] | None = None

    def __contains__(self, line: str) -> bool:
        return line in self._read_lines()

    def add(self, lines: Iterable[str]) -> None:
        """Add lines; StoreError if they cannot be written."""
        new = [line for line in dict.fromkeys(lines) if line not in self._read_lines()]
        if not new:
            return
        with convert_os_errors("note what is in the remote", self._path):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                write_all(descriptor, "".join(f"{line}\n" for line in new).encode("ascii"))
            finally:
                os.close(descriptor)
        self._read_lines().update(new)

    def _read_lines(self) -> set[str]:
        if self._loaded is None:
            try:
                self._loaded = set(self._path.read_text(encoding="ascii", errors="replace").split("\n"))
            except OSError:
                self._loaded = set()
        return self._loaded


class KnownResults:
    """The results of a store that are known to be in one remote, in records that this machine's keys accept.

    Raises:
        UsageError: if a key of this machine cannot be used.
    """

    def __init__(self, store: Path, settings: Settings) -> None:
        self._lines = KnownLines(store / "index" / f"remote-{_digest(settings.url)}{_fingerprint_keys(settings)}.txt")

    def __contains__(self, action: Action) -> bool:
        return _format_line(action) in self._lines

    def add(self, action: Action) -> None:
        """Note that a result is in the remote; StoreError if that cannot be written."""
        self._lines.add([_format_line(action)])


class ResultsOfRemotes:
    """The results of a store that are known to be in any remote."""

    def __init__(self, store: Path) -> None:
        paths = (path for path in (store / "index").glob("remote-*.txt") if not path.name.startswith(OBJECTS))
        self._remotes = [KnownLines(path) for path in paths]

    def __contains__(self, action: Action) -> bool:
        return any(_format_line(action) in lines for lines in self._remotes)


class CheckedResults:
    """The results that this run has found complete in the remote, so that their files need not be on this machine."""

    def __init__(self) -> None:
        self._lines: set[str] = set()

    def __contains__(self, action: Action) -> bool:
        return _format_line(action) in self._lines

    def add(self, action: Action) -> None:
        """Note that a result is complete in the remote."""
        self._lines.add(_format_line(action))


class KnownObjects(KnownLines):
    """Digests of the objects of snapshots that are known to be in one remote."""

    def __init__(self, store: Path, url: str) -> None:
        super().__init__(store / "index" / f"{OBJECTS}{_digest(url)}.txt")


def _fingerprint_keys(settings: Settings) -> str:
    """Return a part of a file's name that stands for the keys of this machine; empty without keys.

    A signature of a fixed text stands for a secret key, and tells no more of it than the records in the remote do.
    """
    keys = [settings.trusted, read_keyring(()).sign(b"keys")]
    return f"-{_digest(encode_canonical(keys).decode())}" if any(keys) else ""


def _digest(text: str) -> str:
    return digest_bytes(text.encode())[:16]


def _format_line(action: Action) -> str:
    return f"{action.key} {action.tree}"
