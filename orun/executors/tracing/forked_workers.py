"""Records of forked workers, sent to the stage's own process.

A worker may be killed as soon as its work is done. It therefore sends each record at once, through a file in memory.
Spawned workers do the same (`spawned_workers.py`).
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
    """Attribute of an object: a dictionary to which a process adds records by name."""

    holder: object
    attribute: str

    @property
    def records(self) -> dict[str, Any]:
        """The dictionary."""
        records: dict[str, Any] = getattr(self.holder, self.attribute)
        return records

    def forward(self, send: Callable[[str, Any], None]) -> None:
        """Also send each record that is added from now on."""
        setattr(self.holder, self.attribute, _ForwardingDict(self.records, send))


class ForkedWorkers:
    """Collector of what workers record."""

    def __init__(self, *notes: Notes) -> None:
        self._notes = notes
        self._begun = False
        self._file: int | None = None

    def install(self) -> None:
        """Watch forks, if the system has files in memory."""
        if MEMORY:
            os.register_at_fork(before=self._create_file, after_in_child=self._forward_all)

    def begin(self) -> None:
        """Count the processes that are forked from now on."""
        self._begun = True

    def share(self) -> int | None:
        """Return the file for a spawned worker; None before the stage has begun, or without files in memory."""
        self._create_file()
        return self._file

    def join(self, file: int) -> None:
        """In a spawned worker: send to that file what is recorded from now on."""
        self._file = file
        self._forward_all()

    def gather(self) -> None:
        """Add what the workers have recorded so far."""
        if self._file is None:
            return
        content = os.pread(self._file, os.fstat(self._file).st_size, 0)
        for index, name, value in map(from_json, content.splitlines()):
            self._notes[index].records.setdefault(name, value)

    def _create_file(self) -> None:
        if MEMORY and self._begun and self._file is None:
            self._file = os.memfd_create("orun")

    def _forward_all(self) -> None:
        for index, notes in enumerate(self._notes if self._file is not None else ()):
            notes.forward(partial(self._send, index))

    def _send(self, index: int, name: str, value: Any) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # the worker has closed all files that it did not open
                os.write(self._file, to_json([index, name, value]) + b"\n")


class _ForwardingDict(dict[str, Any]):
    """Dictionary that sends each item as it is added."""

    def __init__(self, items: Mapping[str, Any], send: Callable[[str, Any], None]) -> None:
        super().__init__(items)
        self._send = send

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        self._send(name, value)
