"""Operations on a remote: look up records, fetch objects, push results. They run in threads."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any, TypeVar

from orun.core.serialization import Record
from orun.fs.digests import digest_bytes, digest_descriptor, is_digest
from orun.fs.durable import READ_ONLY, set_mode
from orun.fs.machine_locks import build_machine_lock
from orun.fs.signatures import set_stamp
from orun.remote.envelope import RefusedError, open_envelope, sign
from orun.remote.names import SLOTS, UNKNOWN, name_object, name_record
from orun.remote.trust import Keyring
from orun.store.object_storage import Bucket
from orun.store.trees import decode

T = TypeVar("T")

RECORD_LIMIT, LIST_LIMIT, LOG_LIMIT = 16 << 20, 64 << 20, 64 << 20  # bytes
PART = 16 << 20  # bytes of an object that one request fetches
LOCK_SECONDS = 0.05  # between two tries at the machine's lock


class Piece(Record, frozen=True):
    """An object and its local file, which is written by `fetch` and read by `push`."""

    digest: str
    size: int  # in bytes; `UNKNOWN` for a log, whose size no list of files names
    path: str


class Records(Record, frozen=True):
    """Some records of a key."""

    accepted: tuple[bytes, ...]  # those with a good signature
    refused: tuple[str, ...]  # why the others were refused
    more: bool  # whether there may be further records


class Fetched(Record, frozen=True):
    """Result of a fetch."""

    arrived: tuple[tuple[int, int] | None, ...]  # size and stamp of each piece; None for a missing log
    problems: tuple[str, ...]  # why the fetch failed; then nothing has arrived


class Pushed(Record, frozen=True):
    """Result of a push."""

    tree: str  # of the record that is there now: another one may have come first
    record: bytes  # that record in its envelope
    sent: int  # bytes of objects that were sent


@dataclass
class Transfers:
    """The operations on one bucket."""

    bucket: Bucket
    keys: Keyring
    pool: Executor  # runs single transfers
    closed: Event = field(default_factory=Event)  # set when no further transfer may start
    present: set[str] = field(default_factory=set)  # digests that are known to be there
    damaged: set[str] = field(default_factory=set)  # digests, to be written again

    def read_records(self, key: str, first: int, count: int) -> Records:
        """Read the records of a key from number `first` on."""
        slots = range(first, min(first + count, SLOTS))
        answers = self._call_each(lambda slot: self._fetch_record(key, slot), slots)
        return Records(
            accepted=tuple(answer for answer in answers if isinstance(answer, bytes)),
            refused=tuple(str(answer) for answer in answers if isinstance(answer, RefusedError)),
            more=None not in answers and slots.stop < SLOTS,
        )

    def open(self, record: bytes) -> Records:
        """Open the envelope of a record that another machine has sent."""
        try:
            return Records((open_envelope(record, self.keys),), (), more=False)
        except RefusedError as error:
            return Records((), (f"its record: {error}",), more=False)

    def _fetch_record(self, key: str, slot: int) -> bytes | RefusedError | None:
        answer = self._read_record(name_record(key, slot))
        return answer[1] if isinstance(answer, tuple) else answer

    def _read_record(self, name: str) -> tuple[bytes, bytes] | RefusedError | None:
        """Read a record; return its envelope and itself."""
        try:
            data = self.bucket.read(name, RECORD_LIMIT)
            return None if data is None else (data, open_envelope(data, self.keys))
        except (RefusedError, ValueError) as error:
            return RefusedError(f"{name}: {error}")

    def read_file_list(self, digest: str) -> bytes | RefusedError:
        """Read the list of files of a tree, checked by its digest; the error if it is missing or damaged."""
        name = name_object(digest)
        try:
            data = self.bucket.read(name, LIST_LIMIT)
        except ValueError as error:
            return RefusedError(f"{name}: {error}")
        if data is None:
            return RefusedError(f"{name} is missing")
        if digest_bytes(data) != digest or not data.isascii():
            self.damaged.add(digest)
            return RefusedError(f"{name} was damaged")
        return data

    def fetch(self, pieces: Sequence[Piece]) -> Fetched:
        """Write objects to files that are read-only and on the disk. A log, whose size is `UNKNOWN`, may be missing."""
        large = [piece for piece in pieces if self.bucket.ranged and piece.size > PART]
        problems = {piece: problem for piece in large if (problem := self._fetch_large(piece))}
        small = [piece for piece in pieces if piece not in large]
        answers = zip(small, self._call_each(self._fetch_small, small), strict=True)
        problems |= {piece: problem for piece, problem in answers if problem}
        if fatal := tuple(problem for piece, problem in problems.items() if piece.size != UNKNOWN):
            return Fetched((None,) * len(pieces), fatal)
        arrived = (
            None if piece in problems else (os.lstat(piece.path).st_size, set_stamp(piece.path)) for piece in pieces
        )
        return Fetched(tuple(arrived), ())

    def _fetch_small(self, piece: Piece) -> str:
        """Fetch an object by one request; return the problem, if any."""
        name = name_object(piece.digest)
        size = self.bucket.read_size(name) if piece.size == UNKNOWN else piece.size
        if size is None or (piece.size == UNKNOWN and size > LOG_LIMIT):
            return f"{name} is missing" if size is None else f"{name} has {size} bytes"
        with self.share_machine(), _create_file(piece.path) as descriptor:
            try:
                exists = self.bucket.copy(name, descriptor, size)
            except ValueError as error:
                self.damaged.add(piece.digest)
                return f"{name}: {error}"
            return self._finish(piece, descriptor) if exists else f"{name} is missing"

    def _fetch_large(self, piece: Piece) -> str:
        """Fetch an object in parts, several at the same time; return the problem, if any."""
        name = name_object(piece.digest)
        if (size := self.bucket.read_size(name)) != piece.size:
            self.damaged.add(piece.digest)
            return f"{name} is missing" if size is None else f"{name}: it has {size} bytes instead of {piece.size}"

        def fetch_part(start: int) -> bool:
            with self.share_machine():
                return self.bucket.copy_part(name, descriptor, start, min(start + PART, piece.size))

        with _create_file(piece.path) as descriptor:
            exists = all(self._call_each(fetch_part, range(0, piece.size, PART)))
            return self._finish(piece, descriptor) if exists else f"{name} is missing"

    def _finish(self, piece: Piece, descriptor: int) -> str:
        """Check the digest of a file and flush it; return the problem, if any."""
        os.lseek(descriptor, 0, os.SEEK_SET)
        if digest_descriptor(descriptor) != piece.digest:
            self.damaged.add(piece.digest)
            return f"{name_object(piece.digest)} was damaged"
        set_mode(descriptor, READ_ONLY)
        os.fsync(descriptor)
        return ""

    def push(
        self, key: str, record: bytes, pieces: Sequence[Piece], *, newest: bool = False, repair: bool = False
    ) -> Pushed:
        """Write the objects that are not there, with `repair` all, then the record of the key.

        With `newest` it replaces a record of the same dependencies, as a new measurement does.
        """
        sent = self.upload(pieces, repair=repair)
        return Pushed(*self._write_record(key, record, newest=newest), sent)

    def forget(self) -> None:
        """Forget what is known to be there: it may have been emptied."""
        self.present.clear()

    def upload(self, pieces: Sequence[Piece], *, repair: bool = False) -> int:
        """Write the objects that are not there, with `repair` all; return the bytes that were sent."""
        if repair:
            digests = {piece.digest for piece in pieces}
            self.present -= digests
            self.damaged |= digests
        sent = self._call_each(self._upload, [piece for piece in pieces if piece.digest not in self.present])
        self.present.update(piece.digest for piece in pieces)
        return sum(sent)

    def _upload(self, piece: Piece) -> int:
        """Write an object unless it is there; return the bytes that were sent."""
        name = name_object(piece.digest)
        if piece.digest not in self.damaged and self.bucket.read_size(name) == piece.size:
            return 0
        descriptor = os.open(piece.path, os.O_RDONLY)
        try:
            digest = digest_descriptor(descriptor)
        finally:
            os.close(descriptor)
        if digest != piece.digest:
            raise RefusedError(f"object {piece.digest} was damaged here")
        with self.share_machine():
            self.bucket.upload(name, piece.path, piece.size)
        self.damaged.discard(piece.digest)
        return piece.size

    def _write_record(self, key: str, record: bytes, *, newest: bool) -> tuple[str, bytes]:
        """Write a record unless a complete result of the same dependencies is there.

        Returns:
            The tree of the record that is there now, and that record in its envelope.
        """
        own = json.loads(record)
        written = str(own["tree"]), sign(record, self.keys)
        for slot in range(SLOTS):
            name = name_record(key, slot)
            if self.bucket.put_if_absent(name, written[1]):
                return written
            answer = self._read_record(name)
            if not isinstance(answer, tuple):
                continue
            present, content = answer
            other = _parse_mapping(content)
            tree = str(other.get("tree"))
            same = other.get("implicit_deps") == own["implicit_deps"]
            if same and newest:
                self.bucket.put(name, written[1])
                return written
            if same and (tree == own["tree"] or self.is_complete(tree)):
                return tree, present
        raise RefusedError(f"key {key} has {SLOTS} records there, and takes no more")

    def is_complete(self, tree: str) -> bool:
        """Return whether every object of an artifact is there, by their sizes."""
        data = self.read_file_list(tree) if is_digest(tree) else None
        if not isinstance(data, bytes):
            return False
        try:
            entries = decode(data)
        except (ValueError, RecursionError):
            return False
        sizes = self._call_each(lambda entry: self.bucket.read_size(name_object(entry.digest)), entries)
        return sizes == [entry.size for entry in entries]

    def _call_each(self, call: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
        """Call a function with each item, several at the same time; raise the first error once all have ended."""
        futures = [self.pool.submit(call, item) for item in items]
        wait(futures)
        return [future.result() for future in futures]

    @contextmanager
    def share_machine(self) -> Iterator[None]:
        """Hold the machine's lock with others, so that no transfer disturbs a stage that measures."""
        with build_machine_lock(exclusive=False) as lock:
            while not lock.try_acquire():
                if self.closed.wait(LOCK_SECONDS):
                    raise CancelledError
            yield


@contextmanager
def _create_file(path: str) -> Iterator[int]:
    """Create a file, open for writing and reading."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _parse_mapping(record: bytes) -> dict[str, Any]:
    """Return the content of a record; nothing if it is not an object of JSON."""
    try:
        content = json.loads(record)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
