"""One folder for each run, named so that names sort by time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from orun.errors import UsageError
from orun.fs.observed_state import FOLDER, seen_at
from orun.fs.os_errors import quoted
from orun.store.layout import RECORD_FILE, safe_name

FORM = "%Y%m%d-%H%M%S-%f"
STAMP = len("20261103-141502-123456")


class Runs:
    """The folder `runs/` of a store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new(self, pipeline: str) -> Path:
        """Make the folder of a run: `20261103-141502-123456-bert`, in UTC, after those of all runs that are there."""
        while True:
            path = self.unmade(pipeline)
            try:
                path.mkdir()
            except FileExistsError:
                continue  # another run began in the same microsecond
            return path

    def unmade(self, pipeline: str) -> Path:
        """Return the path that the folder of a run would have that begins now."""
        return self._folder / f"{self._stamp()}-{safe_name(pipeline)}"

    def _stamp(self) -> str:
        """The time; where a clock was set back, a microsecond after the last run, which would seem the newer one."""
        now = f"{datetime.fromtimestamp(time.time(), UTC):{FORM}}"
        stamps = (name[:STAMP] for name in os.listdir(self._folder) if name[STAMP : STAMP + 1] == "-")
        last = max((stamp for stamp in stamps if stamp.replace("-", "").isdecimal()), default="")
        if now > last:
            return now
        try:
            return f"{datetime.strptime(last, FORM) + timedelta(microseconds=1):{FORM}}"  # noqa: DTZ007 - both in UTC
        except (ValueError, OverflowError):  # a name that only looks like a time
            return now

    def all(self) -> tuple[Path, ...]:
        """The folders of all runs, the oldest first."""
        return tuple(sorted(path for path in self._folder.iterdir() if seen_at(path) == FOLDER))

    def ended(self, named: Callable[[str], bool]) -> Iterator[Path]:
        """The folders of those with such an id that have a record, the newest first: others go on, or were killed."""
        return (path for path in reversed(self.all()) if named(path.name) and seen_at(path / RECORD_FILE))

    def find(self, prefix: str) -> Path:
        """The folder of a run by its id or an unambiguous beginning of it.

        Raises:
            UsageError: when there is none, or more than one.
        """
        runs = self.all()
        found = [run for run in runs if run.name == prefix] or [run for run in runs if run.name.startswith(prefix)]
        if len(found) == 1:
            return found[0]
        problem = f"{len(found)} runs begin with {prefix!r}" if found else f"there is no run {prefix!r}"
        listed = found or runs
        raise UsageError(
            problem,
            why="\n".join(run.name for run in listed[-5:]) or "no run is in this store yet",
            hint=f"See all of them: ls {quoted(self._folder)}",
        )
