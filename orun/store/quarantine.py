"""Quarantine: folder to which damaged and foreign files are moved, so that nothing is lost."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from orun.store.layout import to_safe_name


class Quarantine:
    """Folder `quarantine/` of a store.

    `notices` takes a sentence for each file that is moved there, or would be if the store were not read only.
    """

    def __init__(self, folder: Path, notices: list[str], *, read_only: bool = False) -> None:
        self._folder = folder
        self._notices = notices
        self._read_only = read_only

    def empty(self, older_than: float) -> None:
        """Delete files that were moved here more than so many seconds ago."""
        limit = time.time_ns() - int(older_than * 1e9)
        for path in self._folder.iterdir():
            moment = path.name.partition("-")[0]
            if moment.isdecimal() and int(moment) < limit:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def move(self, path: str, problem: str, name: str, seen: os.stat_result) -> None:
        """Move a damaged file here.

        Args:
            path: of the file.
            problem: clause for the notice.
            name: of the file in quarantine.
            seen: state of the file when it was found damaged. If another process has replaced it since, it stays.
        """
        if self._read_only:
            self._notices.append(problem)
            return
        try:
            if os.path.samestat(os.lstat(path), seen):
                self.save(path, problem, name)
        except FileNotFoundError:
            return  # another process has moved it
        except OSError as error:  # a read-only store: whoever needs the file treats it as missing
            self._notices.append(f"{problem}; it cannot be moved to quarantine ({error.strerror})")

    def save(self, path: str, problem: str, name: str) -> None:
        """Move a file here that must not get lost; OSError if that is impossible."""
        target = self._folder / f"{time.time_ns()}-{to_safe_name(name)}"
        os.rename(path, target)
        self._notices.append(f"{problem}; moved to quarantine as {target}")
