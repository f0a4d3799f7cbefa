"""Quarantine: where damaged and foreign files are moved; nothing is deleted."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from orun.store.layout import safe_name


class Quarantine:
    """The folder `quarantine/` of a store.

    Args:
        folder: its path.
        notices: takes one sentence for each file that is put there.
        read_only: whether files stay where they are; `notices` has their sentences all the same.
    """

    def __init__(self, folder: Path, notices: list[str], *, read_only: bool = False) -> None:
        self._folder = folder
        self._notices = notices
        self._read_only = read_only

    def empty(self, older_than: float) -> None:
        """Delete what was put away longer ago than so many seconds."""
        limit = time.time_ns() - int(older_than * 1e9)
        for path in self._folder.iterdir():
            moment = path.name.partition("-")[0]
            if moment.isdecimal() and int(moment) < limit:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def move(self, path: str, what: str, name: str, seen: os.stat_result) -> None:
        """Put away the file at `path`.

        Args:
            path: where it is.
            what: what is the matter with it, for the notice.
            name: what to call it here.
            seen: its state when that was found out: if another process has replaced it since, it stays.
        """
        if self._read_only:
            self._notices.append(what)
            return
        try:
            if os.path.samestat(os.lstat(path), seen):
                self.save(path, what, name)
        except FileNotFoundError:
            return  # another process has put it away
        except OSError as error:  # a read-only store: whoever needs the file is told that it is not there
            self._notices.append(f"{what}; it cannot be moved to quarantine ({error.strerror})")

    def save(self, path: str, what: str, name: str) -> None:
        """Put away a file that must not get lost, which takes what `move` takes; OSError when that cannot be."""
        target = self._folder / f"{time.time_ns()}-{safe_name(name)}"
        os.rename(path, target)
        self._notices.append(f"{what}; moved to quarantine as {target}")
