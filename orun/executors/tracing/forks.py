"""Reads seen by Python in forked workers, reported to the stage's own process.

A worker is likely to be killed when its work is done, so that it tells at once what it notes, in a file in memory. So
do workers that are started, not forked (`started.py`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from orun.core.serialization import Record, from_json, to_json

MEMORY = hasattr(os, "memfd_create")


class Notes(Record, frozen=True):
    """An attribute of an object in which a process notes things by their names."""

    holder: object
    attribute: str

    @property
    def found(self) -> dict[str, Any]:
        """What it has noted."""
        noted: dict[str, Any] = getattr(self.holder, self.attribute)
        return noted

    def tell(self, tell: Callable[[str, Any], None]) -> None:
        """From now on tell what is noted, too."""
        setattr(self.holder, self.attribute, _Telling(self.found, tell))


class Forks:
    """Has what is noted in further processes noted in this one.

    Args:
        notes: what is noted.
    """

    def __init__(self, *notes: Notes) -> None:
        self._notes = notes
        self._begun = False
        self._file: int | None = None

    def install(self) -> None:
        """Have forks told to this object, where there are files in memory."""
        if MEMORY:
            os.register_at_fork(before=self._before, after_in_child=self._in_child)

    def begin(self) -> None:
        """The processes that are forked from now on are the stage's."""
        self._begun = True

    def share(self) -> int | None:
        """The file for a worker that is not forked; None before the stage has begun, or without files in memory."""
        self._before()
        return self._file

    def join(self, file: int) -> None:
        """In such a worker: tell in that file what is noted from now on."""
        self._file = file
        self._in_child()

    def gather(self) -> None:
        """Note what the others have noted so far."""
        if self._file is None:
            return
        told = os.pread(self._file, os.fstat(self._file).st_size, 0)
        for number, name, what in map(from_json, told.splitlines()):
            self._notes[number].found.setdefault(name, what)

    def _before(self) -> None:
        if MEMORY and self._begun and self._file is None:
            self._file = os.memfd_create("orun")

    def _in_child(self) -> None:
        for number, notes in enumerate(self._notes if self._file is not None else ()):
            notes.tell(partial(self._tell, number))

    def _tell(self, number: int, name: str, what: Any) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # the worker has closed all that it did not open itself
                os.write(self._file, to_json([number, name, what]) + b"\n")


class _Telling(dict[str, Any]):
    """Notes that are told as they are made."""

    def __init__(self, known: Mapping[str, Any], tell: Callable[[str, Any], None]) -> None:
        super().__init__(known)
        self._tell = tell

    def __setitem__(self, name: str, what: Any) -> None:
        super().__setitem__(name, what)
        self._tell(name, what)
