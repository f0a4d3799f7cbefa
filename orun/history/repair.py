"""Repair of a damaged or incomplete history from the records of runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from orun.core.run_record import ASIDE
from orun.errors import StoreError
from orun.eventlog import read_result
from orun.fs.os_errors import convert_os_errors, is_os_error
from orun.history.database import History
from orun.history.points import Point, points_of
from orun.store import Store
from orun.store.layout import RECORD_FILE

BESIDE = ("-journal", "-wal", "-shm")  # what SQLite keeps beside a database


def mend(history: History, store: Store) -> tuple[Path | None, int]:
    """Put a damaged history aside, and add what the runs of a store have measured.

    Returns:
        Where the damaged one is now, None when it was whole; and how many measurements were added.

    Raises:
        StoreError: when it is of a later version, or cannot be read or written for another reason than damage.
    """
    aside = _put_aside(history.path) if history.is_damaged() else None
    before = len(history.points())
    history.add(measured(store))
    return aside, len(history.points()) - before


def measured(store: Store) -> Iterator[Point]:
    """All that the runs of a store have measured, as far as they have records.

    Raises:
        StoreError: when a record cannot be read: what the run has measured is not known.
    """
    for folder in store.runs():
        try:
            result = read_result(folder / RECORD_FILE)
        except StoreError as error:
            if is_os_error(error):
                raise
            continue  # it goes on, it was killed, it is damaged, or another version of orun wrote it
        if not result.pipeline.endswith(ASIDE):
            yield from points_of(result)


def _put_aside(path: Path) -> Path:
    """Give a damaged database another name, with what is beside it."""
    names = (path.with_name(f"{path.name}.damaged{number or ''}") for number in count())
    aside = next(name for name in names if not name.exists())
    with convert_os_errors("put the damaged history aside", path):
        for suffix in ("", *BESIDE):
            with suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    return aside
