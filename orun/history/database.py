"""SQLite database of measurements: appended by runs, read by `orun history`."""

from __future__ import annotations

import dataclasses
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from orun.errors import StoreError
from orun.fs.bounded_reads import is_special
from orun.fs.durable import make_database
from orun.fs.observed_state import stat_presence
from orun.fs.os_errors import quote
from orun.history.points import Point, SeriesName
from orun.store.layout import HISTORY_FILE, VERSION_FILE
from orun.text.suggestions import show_path

FORMAT = 2
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
OTHER_FILE = "name another file in $ORUN_HISTORY"
PATIENCE = 30.0  # seconds to wait for another process that writes
COLUMNS = tuple(field.name for field in dataclasses.fields(Point))
COLUMN_NAMES = ", ".join(COLUMNS)
NAME = "? IN (metric, stage || '.' || metric)"
IDENTITY = ("pipeline", "stage", "key", "metric", "measured_at")
TABLE = f"""
CREATE TABLE IF NOT EXISTS points (
    pipeline TEXT NOT NULL, stage TEXT NOT NULL, uses TEXT NOT NULL, metric TEXT NOT NULL,
    value REAL, low REAL, high REAL, unit TEXT NOT NULL, better TEXT NOT NULL, noise TEXT NOT NULL,
    host TEXT NOT NULL, machine TEXT NOT NULL, key TEXT NOT NULL, run TEXT NOT NULL, measured_at REAL NOT NULL,
    runtime TEXT NOT NULL DEFAULT '',
    PRIMARY KEY ({", ".join(IDENTITY)})
) WITHOUT ROWID"""


class History:
    """Database at a path; the first measurement creates it.

    Any number of processes may use it. A measurement that is added twice is kept once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, points: Iterable[Point]) -> None:
        """Add measurements, all of them or none.

        Raises:
            StoreError: if the database cannot be written, or the file is no database.
        """
        rows = [dataclasses.astuple(point) for point in points]
        marks = ", ".join("?" * len(COLUMNS))
        with self._open() as database, database:
            database.executemany(f"INSERT OR IGNORE INTO points ({COLUMN_NAMES}) VALUES ({marks})", rows)  # noqa: S608 -- names of our own

    def read_points(self, **columns: str) -> tuple[Point, ...]:
        """Return the measurements whose columns have these values, the oldest first; none if there is no database.

        `name` stands for a metric with or without its stage: `latency.p50`, `p50`.

        Raises:
            StoreError: if the database cannot be read, or the file is no database.
        """
        condition = _build_condition(columns)
        query = f"SELECT {COLUMN_NAMES} FROM points WHERE {condition} ORDER BY run, measured_at, stage, metric"  # noqa: S608 -- names of our own
        return tuple(map(_build_point, self._read_rows(query, columns)))

    def read_names(self, **columns: str) -> tuple[tuple[str, str], ...]:
        """Return stage and metric of such measurements, each once; raises as `read_points` does."""
        query = f"SELECT DISTINCT stage, metric FROM points WHERE {_build_condition(columns)} ORDER BY stage, metric"  # noqa: S608 -- names of our own
        return tuple((str(stage), str(metric)) for stage, metric in self._read_rows(query, columns))

    def read_last_values(self, pipeline: str) -> dict[SeriesName, float]:
        """Return the last value of each series of a pipeline; raises as `read_points` does."""
        query = f"SELECT {COLUMN_NAMES}, MAX(run) FROM points WHERE pipeline = ? GROUP BY stage, metric, machine"  # noqa: S608 -- names of our own
        points = [_build_point(row[:-1]) for row in self._read_rows(query, {"pipeline": pipeline})]
        return {point.series: point.value for point in points}

    def is_damaged(self) -> bool:
        """Return whether the file is damaged.

        Raises:
            StoreError: if it cannot be read, is of a later version, or is another file that $ORUN_HISTORY names.
        """
        try:
            return self._read_rows("PRAGMA integrity_check", {}) not in ([], [("ok",)])
        except StoreError as error:
            cause = error.__cause__
            if isinstance(cause, sqlite3.Error) and _extract_code(cause) in DAMAGE and not self._is_foreign(cause):
                return True
            raise

    def _read_rows(self, query: str, values: Mapping[str, str]) -> list[tuple[object, ...]]:
        """Return the rows of a query; none if there is no database, or it is empty."""
        if not stat_presence(self.path):
            return []
        with self._read() as database:
            if self._format(database) == 0:
                return []
            return database.execute(query, tuple(values.values())).fetchall()

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        """Open the database to read it. SQLite first rolls back what a killed process left unfinished."""
        mode = "rw" if stat_presence(f"{self.path}-journal") else "ro"
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        with self._convert_errors(), closing(sqlite3.connect(address, timeout=PATIENCE, uri=True)) as database:
            yield database

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the database to add to it; make its table first."""
        with self._convert_errors():
            make_database(str(self.path))
            with closing(sqlite3.connect(self.path, timeout=PATIENCE)) as database:
                if self._format(database) == 0:
                    with database:
                        database.execute("BEGIN IMMEDIATE")
                        database.execute(TABLE)
                        database.execute(f"PRAGMA user_version = {FORMAT}")
                yield database

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Turn errors of SQLite in the block into StoreErrors."""
        if is_special(self.path):  # opening a pipe would block
            raise self._build_error("it is a pipe or device, not a file")
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(
                f"the history {self.path} cannot be used", why=str(error), hint=self._suggest_command(error)
            ) from error

    def _build_error(self, why: str) -> StoreError:
        return StoreError(f"the history {self.path} cannot be used", why=why, hint=OTHER_FILE)

    def _is_foreign(self, error: sqlite3.Error) -> bool:
        """Return whether the file is no database, and has another name than orun gives: $ORUN_HISTORY is mistaken."""
        return _extract_code(error) == sqlite3.SQLITE_NOTADB and self.path.name != HISTORY_FILE

    def _suggest_command(self, error: sqlite3.Error) -> str:
        if self._is_foreign(error):
            return OTHER_FILE
        if _extract_code(error) not in DAMAGE:
            return f"see whose it is, and whether there is room: ls -l {quote(self.path)}; df -h {quote(self.path)}"
        store = self.path.parent
        option = f" --store {quote(show_path(str(store)))}" if (store / VERSION_FILE).exists() else ""
        return f"put it aside, and have a new one made of what runs have measured: orun history --mend{option}"

    def _format(self, database: sqlite3.Connection) -> int:
        """Return the format of a database; 0 for a new database."""
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > FORMAT:
            raise StoreError(
                f"the history {self.path} was written by a later version of orun",
                why=f"its format is {version}; this version knows {FORMAT}",
                hint="upgrade orun, or keep a history of its own: ORUN_HISTORY=FILE orun ...",
            )
        if version == 0 and database.execute("SELECT 1 FROM sqlite_master WHERE name <> 'points'").fetchone():
            raise self._build_error("it is a database of another program")
        return int(version)


def _extract_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary code of an error."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


def _build_condition(columns: Iterable[str]) -> str:
    return " AND ".join(NAME if column == "name" else f"{column} = ?" for column in columns) or "1"


def _build_point(row: tuple[object, ...]) -> Point:
    values = dict(zip(COLUMNS, row, strict=True))
    if values["value"] is None:  # SQLite stores NaN as NULL
        values["value"] = math.nan
    return Point(**values)  # type: ignore[arg-type]  # the table has the types of its columns
