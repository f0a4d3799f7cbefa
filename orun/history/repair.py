"""Repair of a damaged or incomplete history from the records of runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from orun.core.run_record import INVESTIGATIONS
from orun.errors import StoreError
from orun.eventlog import read_result
from orun.fs.os_errors import convert_os_errors, is_os_error
from orun.history.database import History
from orun.history.points import Point, SeriesName, list_points, list_points_used_again
from orun.store import Store
from orun.store.layout import DATABASE_SUFFIXES


def repair(history: History, store: Store) -> tuple[Path | None, int]:
    """Move a damaged history out of the way, and add what the runs of a store have measured.

    Returns:
        Where the damaged history is now, None if it was intact; and how many measurements were added.

    Raises:
        StoreError: if it is of a later version, is another file that $ORUN_HISTORY names, or cannot be read or written
            for another reason than damage.
    """
    moved_to = _move_away(history.path) if history.is_damaged() else None
    before = len(history.read_points())
    history.add(read_measured(store))
    return moved_to, len(history.read_points()) - before


def read_measured(store: Store) -> Iterator[Point]:
    """Yield what the runs of a store have measured, or used again after another value, as far as they have records.

    Raises:
        StoreError: if a record cannot be read, so that its measurements are not known.
    """
    last: dict[SeriesName, float] = {}
    for folder in store.list_runs():
        try:
            result = read_result(folder)
        except StoreError as error:
            if is_os_error(error):
                raise
            continue  # the run goes on or was killed; the record is damaged, or of another version
        if result.pipeline.endswith(INVESTIGATIONS):
            continue
        points = (*list_points(result), *list_points_used_again(result, last))
        last |= {point.series: point.value for point in points}
        yield from points


def _move_away(path: Path) -> Path:
    """Give a damaged database another name, and SQLite's files with it."""
    names = (path.with_name(f"{path.name}.damaged{number or ''}") for number in count())
    moved_to = next(name for name in names if not name.exists())
    with convert_os_errors("put the damaged history aside", path):
        for suffix in DATABASE_SUFFIXES:
            with suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(f"{moved_to}{suffix}")
    return moved_to
