"""SQLite cache: file signature to BLAKE3 digest.

All processes on a store share it. It is never the truth: it may be deleted at any time, and then files are read once
more. A damaged one is deleted and begun again.

Each row says of one inode: with this size and these times, its content has this digest. That stays true for ever, so a
stale row does no harm. Each row carries a checksum against flipped bits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from orun.fs.digests import digest_bytes
from orun.fs.durable import make_database
from orun.fs.signatures import Signature
from orun.fs.traits import is_local

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")
_File = tuple[int, int]  # device, inode
_Row = tuple[int, int, int, str]  # size, mtime, ctime, digest

FILE_NAME = "signatures.sqlite"
LOCK_TIMEOUT = 60.0  # seconds to wait for another process that writes
MOST_ROWS = 10_000  # that are held in memory
_CHECKSUM = 16  # hexadecimal digits; against damage, not against attack


class Index:
    """Digests by signature; used by one thread at a time.

    Args:
        folder: of the database.
        notices: takes texts for the user.
        read_only: leave the database as it is. What other processes have only in its log is not seen then.

    Attributes:
        pause: least seconds between two writes by `settle`.
        problem: the notice that the database cannot be used, for example in a read-only store; empty if it can.
    """

    def __init__(self, folder: Path, notices: list[str], *, read_only: bool = False) -> None:
        self._folder = folder
        self._path = f"{folder}/{FILE_NAME}"
        self._notices = notices
        self._read_only = read_only
        self._rows: dict[_File, _Row] = {}
        self._unsaved: set[_File] = set()
        self._flushed = float("-inf")
        self._held: dict[_File, _Row | None] | None = None  # rows from before a block `hold_writes`
        self.pause = 0.0
        self.problem = ""
        self._database: sqlite3.Connection | None = None
        self._opened: os.stat_result | None = None  # file of the database
        self._usable = True
        self._rebuilt = False

    def get(self, signature: Signature) -> str | None:
        """Return the digest of a file with this signature, if it is known."""
        file, state = signature[:2], signature[2:]
        row = self._rows.get(file)
        if row is None or row[:3] != state:
            row = self._query(lambda database: _load(database, file))  # another process may have read the file
            if row is None or row[:3] != state:
                return None
            self._rows[file] = row
        return row[3]

    def put(self, signature: Signature, digest: str) -> None:
        """Remember a digest; in memory until `flush`."""
        file = signature[:2]
        if self._held is not None:
            self._held.setdefault(file, self._rows.get(file))
        self._rows[file] = (*signature[2:], digest)
        self._unsaved.add(file)

    @contextmanager
    def hold_writes(self) -> Iterator[None]:
        """Write nothing during a block, and forget what was put if the block fails.

        During the block files may not be on the disk yet. Such a file can lose its content and keep its signature.
        """
        self._held = {}
        try:
            yield
        except BaseException:
            for file, row in self._held.items():
                self._unsaved.discard(file)
                self._rows.pop(file, None)
                if row is not None:
                    self._rows[file] = row
            raise
        finally:
            self._held = None
            self.settle()

    def forget(self, digests: Collection[str]) -> None:
        """Drop what is known of files with these digests."""
        self._rows = {file: row for file, row in self._rows.items() if row[3] not in digests}
        self._unsaved &= self._rows.keys()
        self._query(lambda database: _delete(database, digests))

    def flush(self) -> None:
        """Write what is new, in one transaction."""
        if self._unsaved and self._held is None and not self._read_only:
            self._flushed = monotonic()
            rows = [_encode(file, self._rows[file]) for file in self._unsaved]
            self._unsaved.clear()
            self._query(lambda database: _save(database, rows))
            if self._usable and len(self._rows) > MOST_ROWS:
                self._rows.clear()  # the database has them

    def settle(self) -> None:
        """Flush, unless the last flush was less than `pause` ago. If this process is killed, files are read again."""
        if not self.pause or monotonic() - self._flushed >= self.pause:
            self.flush()

    def close(self) -> None:
        """Flush and close the database."""
        self.flush()
        self._disconnect()

    def _query(self, query: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return the result of a query, or None if the database cannot be used."""
        if not self._usable:
            return None
        import sqlite3

        try:
            return query(self._connect())
        except (sqlite3.DatabaseError, OSError) as error:
            self._recover(error)
        return None

    def _recover(self, error: Exception) -> None:
        """Delete the database, once, if its content is damaged; otherwise continue without it."""
        import sqlite3

        self._disconnect()
        if self._read_only:
            self._usable = False
            return
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if not self._rebuilt and not isinstance(error, OSError) and _is_damage(code):
            self._rebuilt = True
            try:
                self._delete_database()
            except OSError as os_error:
                error = os_error
            else:
                self._notices.append(f"the index in {self._folder} was damaged ({error}) and was begun anew")
                return
        self._usable = False
        self.problem = f"the index in {self._folder} cannot be used ({error}): files are read more than need be"
        self._notices.append(self.problem)

    def _connect(self) -> sqlite3.Connection:
        if self._database is None:
            import sqlite3

            if self._read_only:  # otherwise SQLite would create a log, and shared memory to read it by
                uri = f"{Path(self._path).as_uri()}?mode=ro&immutable=1"
                database = sqlite3.connect(uri, uri=True, check_same_thread=False)
            else:
                self._folder.mkdir(exist_ok=True)
                make_database(self._path)
                database = sqlite3.connect(self._path, timeout=LOCK_TIMEOUT, check_same_thread=False)
                self._opened = os.stat(self._path)
            self._database = database
            database.text_factory = lambda data: data.decode(errors="replace")  # the checksum tells damage
            if self._read_only:
                return database
            # A write-ahead log needs shared memory, which several hosts do not have.
            database.execute(f"PRAGMA journal_mode={'WAL' if is_local(self._folder) else 'DELETE'}")
            database.execute("PRAGMA synchronous=NORMAL")
            database.execute("CREATE TABLE IF NOT EXISTS seen (file TEXT PRIMARY KEY, record TEXT) WITHOUT ROWID")
        return self._database

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _delete_database(self) -> None:
        """Delete the database unless another process has replaced it. The log goes first: it is part of the damage."""
        if self._opened and os.path.exists(self._path) and os.path.samestat(self._opened, os.stat(self._path)):
            for suffix in ("-wal", "-shm", ""):
                Path(self._path + suffix).unlink(missing_ok=True)


def _is_damage(code: int) -> bool:
    """Return whether an error code of SQLite means damaged content.

    An I/O error does if it is met at reading. A database that cannot be written, locked or mapped, for example because
    a quota is used up, can still be read by others, and by the next run.
    """
    import sqlite3

    if code & 0xFF == sqlite3.SQLITE_IOERR:
        return code in (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS)
    return code & 0xFF not in {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }


def _load(database: sqlite3.Connection, file: _File) -> _Row | None:
    name = _name_row(file)
    record = database.execute("SELECT record FROM seen WHERE file = ?", (name,)).fetchone()
    return None if record is None else _decode(name, str(record[0]))


def _save(database: sqlite3.Connection, rows: list[tuple[str, str]]) -> None:
    with database:
        database.executemany("INSERT OR REPLACE INTO seen VALUES (?, ?)", rows)


def _delete(database: sqlite3.Connection, digests: Collection[str]) -> None:
    rows = database.execute("SELECT file, record FROM seen").fetchall()
    gone = [(name,) for name, record in rows if (row := _decode(name, str(record))) is None or row[3] in digests]
    with database:
        database.executemany("DELETE FROM seen WHERE file = ?", gone)


def _name_row(file: _File) -> str:
    return f"{file[0]:x}:{file[1]:x}"  # text, because an inode's number may not fit SQLite's integers


def _encode(file: _File, row: _Row) -> tuple[str, str]:
    name = _name_row(file)
    text = f"{row[0]} {row[1]} {row[2]} {row[3]}"
    return name, f"{text} {_compute_checksum(name, text)}"


def _decode(name: str, record: str) -> _Row | None:
    text, _, checksum = record.rpartition(" ")
    if checksum != _compute_checksum(name, text):
        return None
    size, mtime, ctime, digest = text.split(" ")
    return int(size), int(mtime), int(ctime), digest


def _compute_checksum(name: str, text: str) -> str:
    return digest_bytes(f"{name} {text}".encode())[:_CHECKSUM]
