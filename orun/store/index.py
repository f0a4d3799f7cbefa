"""SQLite cache: file signature to BLAKE3 digest.

A cache in SQLite, shared by all processes on the store. It is never the truth: it may be deleted at any time, and then
files are read once more. A damaged one is given up and the next generation begun under a new name, because other
processes may still have the old one open.

Each row says of one inode: with this size and these times, its content has this digest. That stays true for ever, so
that a stale row does no harm; and each carries a checksum, because a flipped bit in a digest would.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from orun.fs.digests import digest_bytes
from orun.fs.durable import make_database
from orun.fs.signatures import Signature, is_local

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")
_File = tuple[int, int]
_Seen = tuple[int, int, int, str]  # size, mtime, ctime, digest

_SUFFIX = ".sqlite"
_PATIENCE = 60.0  # seconds to wait for another process that writes
_CHECKSUM = 16  # hexadecimal digits; against damage, not against attack


class Index:
    """The digests of known signatures; used by one thread at a time.

    Args:
        folder: where its database is.
        notices: takes what the user should know.
        read_only: whether its database stays as it is. What other processes have not written out of its log is not
            seen then: those files are read.

    Attributes:
        pause: seconds between two times that it is written by `settle`.
        refusal: the notice that it cannot be used, as where the store is read-only; empty otherwise.
    """

    def __init__(self, folder: Path, notices: list[str], *, read_only: bool = False) -> None:
        self._folder = folder
        self._notices = notices
        self._read_only = read_only
        self._seen: dict[_File, _Seen] = {}
        self._unsaved: set[_File] = set()
        self._flushed = float("-inf")
        self._held: dict[_File, _Seen | None] | None = None  # what was known before of what may not be on the disk
        self.pause = 0.0
        self.refusal = ""
        self._database: sqlite3.Connection | None = None
        self._opened = 0  # generation of the database
        self._usable = True
        self._healed = False

    def get(self, signature: Signature) -> str | None:
        """The digest of the content of a file with this signature, if it is known."""
        file, state = signature[:2], signature[2:]
        seen = self._seen.get(file)
        if seen is None or seen[:3] != state:
            seen = self._ask(lambda database: _load(database, file))  # another process may have read it since
            if seen is None or seen[:3] != state:
                return None
            self._seen[file] = seen
        return seen[3]

    def put(self, signature: Signature, digest: str) -> None:
        """Remember the digest; in memory until `flush`."""
        file = signature[:2]
        if self._held is not None:
            self._held.setdefault(file, self._seen.get(file))
        self._seen[file] = (*signature[2:], digest)
        self._unsaved.add(file)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """A block in which nothing is written: the disk may not have yet what is remembered. If it fails, it may never.

        A file of which that is so can lose its content later on, and keeps its signature.
        """
        self._held = {}
        try:
            yield
        except BaseException:
            for file, seen in self._held.items():
                self._unsaved.discard(file)
                self._seen.pop(file, None)
                if seen is not None:
                    self._seen[file] = seen
            raise
        finally:
            self._held = None
            self.settle()

    def forget(self, digests: Collection[str]) -> None:
        """Drop what is known of files with these digests."""
        self._seen = {file: seen for file, seen in self._seen.items() if seen[3] not in digests}
        self._unsaved &= self._seen.keys()
        self._ask(lambda database: _delete(database, digests))

    def flush(self) -> None:
        """Write what is new, in one transaction."""
        if self._unsaved and self._held is None and not self._read_only:
            self._flushed = monotonic()
            rows = [_row(file, self._seen[file]) for file in self._unsaved]
            self._unsaved.clear()
            self._ask(lambda database: _save(database, rows))

    def settle(self) -> None:
        """`flush`, unless that was done less than `pause` ago: what is lost if this process is killed is read again."""
        if not self.pause or monotonic() - self._flushed >= self.pause:
            self.flush()

    def close(self) -> None:
        """Flush and let go of the database."""
        self.flush()
        self._disconnect()

    def _ask(self, question: Callable[[sqlite3.Connection], T]) -> T | None:
        """What the database answers, or None when it cannot."""
        if not self._usable:
            return None
        import sqlite3

        try:
            return question(self._connect())
        except (sqlite3.DatabaseError, OSError) as error:
            self._recover(error)
        return None

    def _recover(self, error: Exception) -> None:
        """Begin anew, once, if the content of the database is to blame; else go on without one."""
        import sqlite3

        self._disconnect()
        if self._read_only:
            self._usable = False
            return
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if not self._healed and not isinstance(error, OSError) and _blames_content(code):
            self._healed = True
            try:
                self._begin_anew()
            except OSError as refusal:
                error = refusal
            else:
                self._notices.append(f"the index in {self._folder} was damaged ({error}) and was begun anew")
                return
        self._usable = False
        self.refusal = f"the index in {self._folder} cannot be used ({error}): files are read more than need be"
        self._notices.append(self.refusal)

    def _connect(self) -> sqlite3.Connection:
        if self._database is None:
            import sqlite3

            if self._read_only:
                # Opened otherwise, it would get a log, and shared memory to read that by.
                path = Path(self._path(self._generation())).as_uri()
                database = sqlite3.connect(f"{path}?mode=ro&immutable=1", uri=True, check_same_thread=False)
            else:
                self._folder.mkdir(exist_ok=True)
                self._opened = self._generation()
                make_database(self._path(self._opened))
                database = sqlite3.connect(self._path(self._opened), timeout=_PATIENCE, check_same_thread=False)
            self._database = database
            database.text_factory = lambda data: data.decode(errors="replace")  # the checksum tells damage
            if self._read_only:
                return database
            # The order of a write-ahead log is in shared memory, which several hosts do not have.
            database.execute(f"PRAGMA journal_mode={'WAL' if is_local(self._folder) else 'DELETE'}")
            database.execute("PRAGMA synchronous=NORMAL")
            database.execute("CREATE TABLE IF NOT EXISTS seen (file TEXT PRIMARY KEY, record TEXT) WITHOUT ROWID")
        return self._database

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _begin_anew(self) -> None:
        """Make the next generation unless another process has."""
        if self._generation() == self._opened:
            Path(self._path(self._opened + 1)).touch()
            for suffix in ("", "-wal", "-shm"):
                Path(self._path(self._opened) + suffix).unlink(missing_ok=True)

    def _path(self, generation: int) -> str:
        return f"{self._folder}/{generation}{_SUFFIX}"

    def _generation(self) -> int:
        names = [name.removesuffix(_SUFFIX) for name in os.listdir(self._folder) if name.endswith(_SUFFIX)]
        return max((int(name) for name in names if name.isdecimal()), default=1)


def _blames_content(code: int) -> bool:
    """Whether a code, with its extension, is of an error that is the fault of the database's content.

    An I/O error is when it is met at reading. What cannot be written, locked or mapped, as where a quota is used up,
    can still be read by others, and by the next run.
    """
    import sqlite3

    if code & 0xFF == sqlite3.SQLITE_IOERR:
        return code in (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS)
    return code & 0xFF not in _surroundings()


@functools.cache
def _surroundings() -> frozenset[int]:
    """Codes of errors that are not the fault of the database's content."""
    import sqlite3

    return frozenset(
        {
            sqlite3.SQLITE_BUSY,
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_LOCKED,
            sqlite3.SQLITE_NOMEM,
            sqlite3.SQLITE_PERM,
            sqlite3.SQLITE_PROTOCOL,
            sqlite3.SQLITE_READONLY,
        }
    )


def _load(database: sqlite3.Connection, file: _File) -> _Seen | None:
    name = _name(file)
    found = database.execute("SELECT record FROM seen WHERE file = ?", (name,)).fetchone()
    return None if found is None else _parse(name, str(found[0]))


def _save(database: sqlite3.Connection, rows: list[tuple[str, str]]) -> None:
    with database:
        database.executemany("INSERT OR REPLACE INTO seen VALUES (?, ?)", rows)


def _delete(database: sqlite3.Connection, digests: Collection[str]) -> None:
    rows = database.execute("SELECT file, record FROM seen").fetchall()
    gone = [(name,) for name, record in rows if (seen := _parse(name, str(record))) is None or seen[3] in digests]
    with database:
        database.executemany("DELETE FROM seen WHERE file = ?", gone)


def _name(file: _File) -> str:
    return f"{file[0]:x}:{file[1]:x}"  # text, because an inode's number may not fit SQLite's integers


def _row(file: _File, seen: _Seen) -> tuple[str, str]:
    name = _name(file)
    text = f"{seen[0]} {seen[1]} {seen[2]} {seen[3]}"
    return name, f"{text} {_checksum(name, text)}"


def _parse(name: str, record: str) -> _Seen | None:
    text, _, checksum = record.rpartition(" ")
    if checksum != _checksum(name, text):
        return None
    size, mtime, ctime, digest = text.split(" ")
    return int(size), int(mtime), int(ctime), digest


def _checksum(name: str, text: str) -> str:
    return digest_bytes(f"{name} {text}".encode())[:_CHECKSUM]
