"""Actions by key: `actions/ab/<key>/<variant>.json`, one checksummed record a set of implicit dependencies."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

from orun.core import serialization
from orun.fs.digests import digest_bytes
from orun.fs.durable import replace_file
from orun.fs.flushing import Flushing
from orun.fs.observed_state import require_regular
from orun.fs.signatures import Signature, signature_of
from orun.store.checksummed_json import canonical, decode_checksummed, encode_checksummed
from orun.store.layout import safe_name
from orun.store.quarantine import Quarantine
from orun.store.records import Action
from orun.store.session_directory import Session

_SUFFIX = ".json"


class Actions:
    """The records of a store, and for each stage which was its last."""

    def __init__(self, root: Path, session: Session, quarantine: Quarantine, flushing: Flushing | None = None) -> None:
        self._flushing = flushing or Flushing()
        self._root = str(root)
        self._session = session
        self._quarantine = quarantine
        self._read_before: dict[str, tuple[Signature, Action | None]] = {}

    def find(self, key: str) -> tuple[Action, ...]:
        """All records under a key, the newest first; a damaged one is put away and does not count."""
        folder = self._folder(key)
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return ()
        found = [self._read(key, f"{folder}/{name}") for name in names]
        return tuple(sorted(filter(None, found), key=lambda action: action.started_at, reverse=True))

    def put(self, action: Action) -> None:
        """Store a record; it takes the place of one with the same discovered inputs.

        It is there for good when this returns, or the block `together`.
        """
        path, at_once = self.path(action), self._flushing.at_once
        changed = self._write(path, serialization.encode(action), sync=at_once)
        if not at_once:
            self._flushing.file(path, checksummed=True)
            self._flushing.folders(changed)

    def latest(self, pipeline: str, stage: str) -> Action | None:
        """The record that was last named for a stage, or None when there is none any more."""
        pointer = self._pointed(self.pointer(pipeline, stage))
        return self._read(pointer["key"], self._record(pointer)) if pointer else None

    def set_latest(self, pipeline: str, stage: str, action: Action) -> None:
        """Name the last record of a stage; nothing is written when it is named already."""
        path = self.pointer(pipeline, stage)
        pointer = {"key": action.key, "variant": _variant(action), "pipeline": pipeline, "stage": stage}
        if self._pointed(path) != pointer:
            self._write(path, pointer, sync=False)  # it can be lost: it only serves people

    def all(self) -> Iterator[tuple[str, Signature, Action]]:
        """Path and signature of every record that is whole; damaged ones are put away."""
        for path in _json_files(f"{self._root}/actions", 2):
            action = self._read(os.path.basename(os.path.dirname(path)), path)
            if action:
                yield path, self._read_before[path][0], action

    def pointers(self) -> Iterator[tuple[str, str, str]]:
        """Pipeline, stage and path of the record of every pointer that is whole; damaged ones are put away."""
        for path in _json_files(f"{self._root}/latest", 1):
            if pointer := self._pointed(path):
                yield pointer["pipeline"], pointer["stage"], self._record(pointer)

    def remove(self, path: str, signature: Signature) -> None:
        """Remove a record unless it was written anew since it had that signature."""
        if signature_of(os.stat(path)) == signature:
            os.unlink(path)
            with contextlib.suppress(OSError):  # there are others under its key
                os.rmdir(os.path.dirname(path))

    def remove_pointer(self, pipeline: str, stage: str) -> None:
        """Forget which record was the last of a stage."""
        os.unlink(self.pointer(pipeline, stage))

    def path(self, action: Action) -> str:
        """Where a record is."""
        return f"{self._folder(action.key)}/{_variant(action)}{_SUFFIX}"

    def pointer(self, pipeline: str, stage: str) -> str:
        """Where it is named which record was the last of a stage."""
        return f"{self._root}/latest/{safe_name(pipeline)}/{safe_name(stage)}{_SUFFIX}"

    def _folder(self, key: str) -> str:
        return f"{self._root}/actions/{key[:2]}/{key}"

    def _record(self, pointer: dict[str, str]) -> str:
        return f"{self._folder(pointer['key'])}/{pointer['variant']}{_SUFFIX}"

    def _pointed(self, path: str) -> dict[str, str] | None:
        pointer = self._unsealed(path, f"the pointer {path.removeprefix(self._root + '/')}")
        return pointer if isinstance(pointer, dict) else None

    def _write(self, path: str, record: object, *, sync: bool) -> list[str]:
        return replace_file(path, encode_checksummed(record), self._session.path("record"), sync=sync)

    def _read(self, key: str, path: str) -> Action | None:
        try:
            signature = signature_of(os.stat(path))
        except FileNotFoundError:
            return None
        before = self._read_before.get(path)
        if before is None or before[0] != signature:
            record = self._unsealed(path, f"a record of key {key}")
            before = signature, None if record is None else _action(record)
            self._read_before[path] = before
        action = before[1]
        return action if action and action.key == key else None

    def _unsealed(self, path: str, what: str) -> Any:
        """The content of a sealed file, or None when it is not there or was damaged and is in quarantine now."""
        try:
            with _opened(path, mend=not self._session.read_only) as file:
                content, status = file.readall(), os.fstat(file.fileno())
            return decode_checksummed(content)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError:
            self._quarantine.move(path, f"{what} was damaged", name=os.path.basename(path), seen=status)
            return None


def _opened(path: str, *, mend: bool) -> FileIO:
    """Open a file to be read; one of this user's, from which somebody has taken the right to, gets it back."""
    require_regular(path)
    try:
        return open(path, "rb", buffering=0)
    except PermissionError:
        if not mend:
            raise
        with contextlib.suppress(OSError):  # it is another's
            os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | stat.S_IRUSR)
        return open(path, "rb", buffering=0)


def _json_files(folder: str, depth: int) -> Iterator[str]:
    """All records in the folders that are `depth` levels down."""
    for name in sorted(os.listdir(folder)):
        path = f"{folder}/{name}"
        if depth and os.path.isdir(path):
            yield from _json_files(path, depth - 1)
        elif not depth and name.endswith(_SUFFIX):
            yield path


def _action(record: Any) -> Action | None:
    try:
        return serialization.decode(Action, record)
    except ValueError:
        return None  # its seal is whole, so another version of orun wrote it: of no use to this one


def _variant(action: Action) -> str:
    """The file name of a record among those of its key: what was discovered, by content."""
    return digest_bytes(canonical(serialization.encode(action.discovered)))
