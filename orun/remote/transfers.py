"""Work of the transferring process: look up records, fetch objects, push results."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import sleep
from typing import Any, Protocol, TypeVar

from orun.fs.digests import digest_bytes, digest_descriptor, is_digest
from orun.fs.durable import READ_ONLY, set_mode
from orun.fs.locks import machine_lock
from orun.fs.signatures import set_stamp
from orun.remote.envelope import RefusedError, seal, unseal
from orun.remote.names import SLOTS, UNKNOWN, object_name, record_name
from orun.remote.trust import Keyring
from orun.store.trees import decode

T = TypeVar("T")

RECORD_LIMIT, LIST_LIMIT, LOG_LIMIT = 16 << 20, 64 << 20, 64 << 20  # bytes
PART = 16 << 20  # bytes of an object that one request fetches
TURN = 0.05  # seconds between two tries at the machine's lock


class Place(Protocol):
    """Where things are: see `orun.store.object_storage.Bucket`."""

    ranged: bool

    def size(self, name: str) -> int | None: ...  # noqa: D102 - see Bucket
    def read(self, name: str, limit: int) -> bytes | None: ...  # noqa: D102
    def copy(self, name: str, descriptor: int, size: int) -> bool: ...  # noqa: D102
    def copy_part(self, name: str, descriptor: int, start: int, end: int) -> bool: ...  # noqa: D102
    def upload(self, name: str, path: str, size: int) -> None: ...  # noqa: D102
    def put_if_absent(self, name: str, data: bytes) -> bool: ...  # noqa: D102


@dataclass(frozen=True)
class Piece:
    """An object and its file here: where it is to be written to, or is to be read from.

    Attributes:
        digest: of the object.
        size: in bytes; `UNKNOWN` for one whose size nobody has said.
        path: of the file.
    """

    digest: str
    size: int
    path: str


@dataclass
class Transfers:
    """The operations on one remote place.

    Attributes:
        place: where it is.
        keys: who is believed, and as whom this process signs.
        pool: runs single transfers.
        present: digests that are known to be there.
        broken: digests that were found damaged there, to be written anew.
    """

    place: Place
    keys: Keyring
    pool: Executor
    present: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)

    def records(self, key: str, first: int, count: int) -> dict[str, Any]:
        """Some records of a key as they arrived, why others were refused, and whether there may be more."""
        slots = range(first, min(first + count, SLOTS))
        answers = self._each(lambda slot: self._record(key, slot), slots)
        return {
            "records": [answer.decode("ascii") for answer in answers if isinstance(answer, bytes)],
            "refused": [str(answer) for answer in answers if isinstance(answer, RefusedError)],
            "more": None not in answers and slots.stop < SLOTS,
        }

    def _record(self, key: str, slot: int) -> bytes | RefusedError | None:
        name = record_name(key, slot)
        try:
            data = self.place.read(name, RECORD_LIMIT)
            return None if data is None else unseal(data, self.keys)
        except (RefusedError, ValueError) as error:
            return RefusedError(f"{name}: {error}")

    def read(self, digest: str) -> dict[str, Any]:
        """The text of a small object, a list of files; None when there is none, or not with that content."""
        name = object_name(digest)
        try:
            data = self.place.read(name, LIST_LIMIT)
        except ValueError as error:
            return {"text": None, "problem": f"{name}: {error}"}
        if data is None:
            return {"text": None, "problem": f"{name} is missing"}
        if digest_bytes(data) != digest or not data.isascii():
            self.broken.add(digest)
            return {"text": None, "problem": f"{name} was damaged"}
        return {"text": data.decode("ascii"), "problem": ""}

    def fetch(self, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Write objects to files, on the disk and read-only; else what is wrong with some.

        One of `UNKNOWN` size may be missing. For each piece its size and stamp, None for such a one.
        """
        large = [piece for piece in pieces if self.place.ranged and piece.size > PART]
        wrong = {piece: problem for piece in large if (problem := self._fetch_large(piece))}
        small = [piece for piece in pieces if piece not in large]
        found = zip(small, self._each(self._fetch_small, small), strict=True)
        wrong |= {piece: problem for piece, problem in found if problem}
        problems = [problem for piece, problem in wrong.items() if piece.size != UNKNOWN]
        arrived = [None if problems or piece in wrong else _arrived(piece.path) for piece in pieces]
        return {"arrived": arrived, "problems": problems}

    def _fetch_small(self, piece: Piece) -> str:
        """Fetch an object by one request; what is wrong with it, if anything is."""
        name = object_name(piece.digest)
        size = self.place.size(name) if piece.size == UNKNOWN else piece.size
        if size is None or (piece.size == UNKNOWN and size > LOG_LIMIT):
            return f"{name} is missing" if size is None else f"{name} has {size} bytes"
        with machine_shared(), _made(piece.path) as descriptor:
            try:
                there = self.place.copy(name, descriptor, size)
            except ValueError as error:
                self.broken.add(piece.digest)
                return f"{name}: {error}"
            return self._checked(piece, descriptor) if there else f"{name} is missing"

    def _fetch_large(self, piece: Piece) -> str:
        """Fetch an object part by part, several at the same time."""
        name = object_name(piece.digest)
        if (size := self.place.size(name)) != piece.size:
            self.broken.add(piece.digest)
            return f"{name} is missing" if size is None else f"{name}: it has {size} bytes in the place of {piece.size}"

        def part(start: int) -> bool:
            with machine_shared():
                return self.place.copy_part(name, descriptor, start, min(start + PART, piece.size))

        with _made(piece.path) as descriptor:
            there = all(self._each(part, range(0, piece.size, PART)))
            return self._checked(piece, descriptor) if there else f"{name} is missing"

    def _checked(self, piece: Piece, descriptor: int) -> str:
        """Whether the file holds the object: its own bytes decide."""
        os.lseek(descriptor, 0, os.SEEK_SET)
        if digest_descriptor(descriptor) != piece.digest:
            self.broken.add(piece.digest)
            return f"{object_name(piece.digest)} was damaged"
        set_mode(descriptor, READ_ONLY)
        os.fsync(descriptor)
        return ""

    def push(self, key: str, record: str, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Write objects that are not there, then the record; `first` is the tree of the record that was there first."""
        sent = self._each(self._upload, [piece for piece in pieces if piece.digest not in self.present])
        self.present.update(piece.digest for piece in pieces)
        return {"first": self._record_once(key, record), "sent": sum(sent)}

    def _upload(self, piece: Piece) -> int:
        """Write an object unless it is there; the bytes that were sent."""
        name = object_name(piece.digest)
        if piece.digest not in self.broken and self.place.size(name) == piece.size:
            return 0
        descriptor = os.open(piece.path, os.O_RDONLY)
        try:
            digest = digest_descriptor(descriptor)
        finally:
            os.close(descriptor)
        if digest != piece.digest:
            raise RefusedError(f"object {piece.digest} was damaged here")
        with machine_shared():
            self.place.upload(name, piece.path, piece.size)
        self.broken.discard(piece.digest)
        return piece.size

    def _record_once(self, key: str, record: str) -> str:
        """Write a record where none is that says what was read alike; the tree that counts from now on."""
        mine = json.loads(record)
        data = seal(record.encode("ascii"), self.keys)
        for slot in range(SLOTS):
            if self.place.put_if_absent(record_name(key, slot), data):
                return str(mine["tree"])
            there = self._record(key, slot)
            if isinstance(there, bytes):
                other = _plain(there)
                tree = str(other.get("tree"))
                if other.get("discovered") == mine["discovered"] and (tree == mine["tree"] or self._is_whole(tree)):
                    return tree
        raise RefusedError(f"key {key} has {SLOTS} records there, and takes no more")

    def _is_whole(self, tree: str) -> bool:
        """Whether every object of an artifact is there, by their sizes."""
        text = self.read(tree)["text"] if is_digest(tree) else None
        if text is None:
            return False
        try:
            entries = decode(text.encode("ascii"))
        except (ValueError, RecursionError):
            return False
        sizes = self._each(lambda entry: self.place.size(object_name(entry.digest)), entries)
        return sizes == [entry.size for entry in entries]

    def _each(self, work: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
        """`work` of each item, several at the same time; the first error of any is raised once all have ended."""
        futures = [self.pool.submit(work, item) for item in items]
        wait(futures)
        return [future.result() for future in futures]


def _arrived(path: str) -> tuple[int, int]:
    """The size and stamp of a file that is whole."""
    return os.lstat(path).st_size, set_stamp(path)


@contextmanager
def machine_shared() -> Iterator[None]:
    """Hold the machine's lock beside others: no transfer disturbs a stage that measures."""
    with machine_lock(exclusive=False) as lock:
        while not lock.try_acquire():
            sleep(TURN)
        yield


@contextmanager
def _made(path: str) -> Iterator[int]:
    """A new file, open for writing and reading."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _plain(record: bytes) -> dict[str, Any]:
    try:
        found = json.loads(record)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
