"""Actions by key: `actions/ab/<key>/<variant>.json`, one checksummed record for each set of implicit dependencies."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

from orun.core import serialization
from orun.fs.bounded_reads import require_regular
from orun.fs.digests import digest_bytes
from orun.fs.durable import replace_file
from orun.fs.flushing import Flushing
from orun.fs.signatures import Signature, to_signature
from orun.store.checksummed_json import decode_checksummed, encode_canonical, encode_checksummed
from orun.store.layout import to_safe_name
from orun.store.quarantine import Quarantine
from orun.store.records import Action
from orun.store.session_directory import Session

_SUFFIX = ".json"


class Actions:
    """Action records of a store, and a pointer to the last record of each stage."""

    def __init__(self, root: Path, session: Session, quarantine: Quarantine, flushing: Flushing) -> None:
        self._flushing = flushing
        self._root = str(root)
        self._session = session
        self._quarantine = quarantine
        self._read_before: dict[str, tuple[Signature, Action | None]] = {}

    def find(self, key: str) -> tuple[Action, ...]:
        """Return all records of a key, the newest first. Damaged ones are moved to quarantine."""
        folder = self._locate_folder(key)
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return ()
        actions = [self._read(key, f"{folder}/{name}") for name in names]
        return tuple(sorted(filter(None, actions), key=lambda action: action.started_at, reverse=True))

    def put(self, action: Action) -> None:
        """Store a record in place of one with the same implicit dependencies.

        It is on the disk when this returns, or at the end of a block `flush_together`.
        """
        path, at_once = self.locate(action), self._flushing.at_once
        changed = self._write(path, serialization.encode(action), sync=at_once)
        if not at_once:
            self._flushing.note_file(path, checksummed=True)
            self._flushing.flush_folders(changed)

    def find_latest(self, pipeline: str, stage: str) -> Action | None:
        """Return the last record of a stage, or None if it is unknown or gone."""
        pointer = self._read_pointer(self.locate_pointer(pipeline, stage))
        return self._read(pointer["key"], self._locate_record(pointer)) if pointer else None

    def set_latest(self, pipeline: str, stage: str, action: Action) -> None:
        """Note the last record of a stage. Writes nothing if it is noted already."""
        path = self.locate_pointer(pipeline, stage)
        pointer = {"key": action.key, "variant": _name_variant(action), "pipeline": pipeline, "stage": stage}
        if self._read_pointer(path) != pointer:
            self._write(path, pointer, sync=False)  # may be lost: no result depends on it

    def iter_all(self) -> Iterator[tuple[str, Signature, Action]]:
        """Yield path, signature and content of every record. Damaged ones are moved to quarantine."""
        for path in _iter_json_files(f"{self._root}/actions", 2):
            action = self._read(os.path.basename(os.path.dirname(path)), path)
            if action:
                yield path, self._read_before[path][0], action

    def iter_pointers(self) -> Iterator[tuple[str, str, str]]:
        """Yield pipeline, stage and path of the record of every pointer. Damaged ones are moved to quarantine."""
        for path in _iter_json_files(f"{self._root}/latest", 1):
            if pointer := self._read_pointer(path):
                yield pointer["pipeline"], pointer["stage"], self._locate_record(pointer)

    def remove(self, path: str, signature: Signature) -> None:
        """Remove a record unless it was replaced since it had that signature."""
        if to_signature(os.stat(path)) == signature:
            os.unlink(path)
            with contextlib.suppress(OSError):  # the key has further records
                os.rmdir(os.path.dirname(path))

    def remove_pointer(self, pipeline: str, stage: str) -> None:
        """Remove the pointer to the last record of a stage."""
        os.unlink(self.locate_pointer(pipeline, stage))

    def locate(self, action: Action) -> str:
        """Return the path of a record."""
        return f"{self._locate_folder(action.key)}/{_name_variant(action)}{_SUFFIX}"

    def locate_pointer(self, pipeline: str, stage: str) -> str:
        """Return the path of the pointer to the last record of a stage."""
        return f"{self._root}/latest/{to_safe_name(pipeline)}/{to_safe_name(stage)}{_SUFFIX}"

    def _locate_folder(self, key: str) -> str:
        return f"{self._root}/actions/{key[:2]}/{key}"

    def _locate_record(self, pointer: dict[str, str]) -> str:
        return f"{self._locate_folder(pointer['key'])}/{pointer['variant']}{_SUFFIX}"

    def _read_pointer(self, path: str) -> dict[str, str] | None:
        pointer = self._load(path, f"the pointer {path.removeprefix(self._root + '/')}")
        return pointer if isinstance(pointer, dict) else None

    def _write(self, path: str, record: object, *, sync: bool) -> list[str]:
        return replace_file(path, encode_checksummed(record), self._session.choose_path("record"), sync=sync)

    def _read(self, key: str, path: str) -> Action | None:
        try:
            signature = to_signature(os.stat(path))
        except FileNotFoundError:
            return None
        before = self._read_before.get(path)
        if before is None or before[0] != signature:
            record = self._load(path, f"a record of key {key}")
            before = signature, None if record is None else _decode(record)
            self._read_before[path] = before
        action = before[1]
        return action if action and action.key == key else None

    def _load(self, path: str, noun: str) -> Any:
        """Return the content of a checksummed file; None if it is missing, or damaged and now in quarantine."""
        try:
            with _open(path, repair=not self._session.read_only) as file:
                content, status = file.readall(), os.fstat(file.fileno())
            return decode_checksummed(content)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError:
            self._quarantine.move(path, f"{noun} was damaged", name=os.path.basename(path), seen=status)
            return None


def _open(path: str, *, repair: bool) -> FileIO:
    """Open a file for reading; make it readable first if its mode was changed."""
    require_regular(path)
    try:
        return open(path, "rb", buffering=0)
    except PermissionError:
        if not repair:
            raise
        with contextlib.suppress(OSError):  # another user's
            os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | stat.S_IRUSR)
        return open(path, "rb", buffering=0)


def _iter_json_files(folder: str, depth: int) -> Iterator[str]:
    """Yield all records in the folders that are `depth` levels down."""
    for name in sorted(os.listdir(folder)):
        path = f"{folder}/{name}"
        if depth and os.path.isdir(path):
            yield from _iter_json_files(path, depth - 1)
        elif not depth and name.endswith(_SUFFIX):
            yield path


def _decode(record: Any) -> Action | None:
    try:
        return serialization.decode(Action, record)
    except ValueError:
        return None  # its digest fits: another version of orun wrote it


def _name_variant(action: Action) -> str:
    """Return the file name of a record among those of its key: the digest of its implicit dependencies."""
    return digest_bytes(encode_canonical(serialization.encode(action.implicit_deps)))
