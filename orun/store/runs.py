"""Folders of runs, named so that names sort by time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from orun.errors import UsageError
from orun.fs.observed_state import FOLDER, stat_presence
from orun.fs.os_errors import quote
from orun.store.layout import RECORD_FILE, to_safe_name

FORM = "%Y%m%d-%H%M%S-%f"
STAMP = len("20261103-141502-123456")


class Runs:
    """The folder `runs/` of a store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(self, pipeline: str) -> Path:
        """Make the folder of a run: `20261103-141502-123456-bert`, in UTC, sorting after those of all runs."""
        while True:
            path = self.choose_next_folder(pipeline)
            try:
                path.mkdir()
            except FileExistsError:
                continue  # another run began in the same microsecond
            return path

    def choose_next_folder(self, pipeline: str) -> Path:
        """Return the path that the folder of a new run would have."""
        return self._folder / f"{self._format_stamp()}-{to_safe_name(pipeline)}"

    def _format_stamp(self) -> str:
        """Return the time as text; a microsecond after the last run if the clock was set back."""
        now = f"{datetime.fromtimestamp(time.time(), UTC):{FORM}}"
        stamps = (name[:STAMP] for name in os.listdir(self._folder) if name[STAMP : STAMP + 1] == "-")
        last = max((stamp for stamp in stamps if stamp.replace("-", "").isdecimal()), default="")
        if now > last:
            return now
        try:
            return f"{datetime.strptime(last, FORM) + timedelta(microseconds=1):{FORM}}"  # noqa: DTZ007 - both in UTC
        except (ValueError, OverflowError):  # a name that only looks like a time
            return now

    def list_all(self) -> tuple[Path, ...]:
        """Return the folders of all runs, the oldest first."""
        return tuple(sorted(path for path in self._folder.iterdir() if stat_presence(path) == FOLDER))

    def iter_ended(self, named: Callable[[str], bool]) -> Iterator[Path]:
        """Return the folders of ended runs whose ids `named` accepts, the newest first; ended runs have a record."""
        return (path for path in reversed(self.list_all()) if named(path.name) and stat_presence(path / RECORD_FILE))

    def find(self, prefix: str) -> Path:
        """Return the folder of a run by its id or an unambiguous prefix of it.

        Raises:
            UsageError: if there is none, or more than one.
        """
        runs = self.list_all()
        matches = [run for run in runs if run.name == prefix] or [run for run in runs if run.name.startswith(prefix)]
        if len(matches) == 1:
            return matches[0]
        from orun.core.run_record import is_users

        problem = f"{len(matches)} runs begin with {prefix!r}" if matches else f"there is no run {prefix!r}"
        listed = matches or [run for run in runs if is_users(run.name)]
        raise UsageError(
            problem,
            why="\n".join(run.name for run in listed[-5:]) or "no run is in this store yet",
            hint=f"see all of them: ls {quote(self._folder)}",
        )
