"""Traced system calls: numbers and arguments by machine, and the paths that a call names in its process's memory."""
# ruff: noqa: PTH115, PTH118  (strings: every file that a stage opens passes here)

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence

from orun.core.serialization import Record

MACHINE = platform.machine()
# Indices of the arguments for the folder that a path starts from, and for the path.
PathArgument = tuple[int | None, int]
PLAIN, SECOND_PLAIN = (None, 0), (None, 1)
FROM_FOLDER, SECOND_FROM_FOLDER = (0, 1), (2, 3)
# By machine: openat, open, creat (which not every machine has) and openat2, with the index of the flags. openat2 gets a
# pointer to them, creat none.
OPENS: Mapping[str, Mapping[int, int | None]] = {
    "x86_64": {257: 2, 2: 1, 85: None, 437: None},
    "aarch64": {56: 2, 437: None},
}
OPEN, CREAT, OPENAT2 = 2, 85, 437
# By machine: rename, renameat, renameat2, link and linkat, with both paths.
MOVES: Mapping[str, Mapping[int, tuple[PathArgument, PathArgument]]] = {
    "x86_64": {
        82: (PLAIN, SECOND_PLAIN),
        264: (FROM_FOLDER, SECOND_FROM_FOLDER),
        316: (FROM_FOLDER, SECOND_FROM_FOLDER),
        86: (PLAIN, SECOND_PLAIN),
        265: (FROM_FOLDER, SECOND_FROM_FOLDER),
    },
    "aarch64": dict.fromkeys((38, 276, 37), (FROM_FOLDER, SECOND_FROM_FOLDER)),
}
LINKS = {"x86_64": {86, 265}, "aarch64": {37}}  # moves that keep the first path
# By machine: execve and execveat. The kernel itself opens the program.
STARTS: Mapping[str, Mapping[int, PathArgument]] = {
    "x86_64": {59: PLAIN, 322: FROM_FOLDER},
    "aarch64": {221: PLAIN, 281: FROM_FOLDER},
}
# By machine: access, faccessat and faccessat2; then readlink and readlinkat. Tracing `stat` and its like as well would
# take twelve times as many reports, as each import calls it several times: 16,700 besides 1,400 opens for PyTorch,
# 1,440 besides 190 for git status.
ACCESSES: Mapping[str, Mapping[int, PathArgument]] = {
    "x86_64": {21: PLAIN, 269: FROM_FOLDER, 439: FROM_FOLDER},
    "aarch64": {48: FROM_FOLDER, 439: FROM_FOLDER},
}
READLINKS: Mapping[str, Mapping[int, PathArgument]] = {
    "x86_64": {89: PLAIN, 267: FROM_FOLDER},
    "aarch64": {78: FROM_FOLDER},
}
# By machine: mkdir and mkdirat.
MKDIRS: Mapping[str, Mapping[int, PathArgument]] = {
    "x86_64": {83: PLAIN, 258: FROM_FOLDER},
    "aarch64": {34: FROM_FOLDER},
}
AT_FDCWD = 2**32 - 100
ITSELF = re.compile(r"^/+proc/+(?:thread-)?self(?=/)|^/+dev(?=/+fd/)")  # the process that calls, in a path
STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
PATH_MAX = 4096


class SystemCall(Record, frozen=True):
    """Reported system call, which waits for an answer.

    Attributes:
        token: the kernel's id of the report.
        thread: id of the thread that waits.
        number: number of the system call.
        arguments: its arguments.
    """

    token: int
    thread: int
    number: int
    arguments: tuple[int, ...]

    def is_of(self, calls: Mapping[str, Mapping[int, object]]) -> bool:
        """Return whether the call is in a table."""
        return self.number in calls[MACHINE]

    @property
    def keeps_source(self) -> bool:
        """Whether a move keeps the first path, as a link does."""
        return self.number in LINKS[MACHINE]

    def read_paths(self) -> tuple[tuple[str, ...], int]:
        """Return the absolute paths that the call names, from its process's memory, and the flags of an open.

        Raises:
            OSError, ValueError: if the memory cannot be read.
        """
        for table in (STARTS, ACCESSES, READLINKS, MKDIRS):
            if place := table[MACHINE].get(self.number):
                return (self._read_path_at(place),), 0
        if places := MOVES[MACHINE].get(self.number):
            return tuple(map(self._read_path_at, places)), 0
        if self.number == CREAT:
            return (_read_path(self.thread, AT_FDCWD, self.arguments[0]),), os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        folder, address, flags = (AT_FDCWD, *self.arguments[:2]) if self.number == OPEN else self.arguments[:3]
        if self.number == OPENAT2:  # a pointer to a structure that begins with the flags
            flags = int.from_bytes(_read_memory(self.thread, flags, 8), sys.byteorder)
        return (_read_path(self.thread, folder, address),), flags

    def _read_path_at(self, place: PathArgument) -> str:
        folder, path = place
        start = AT_FDCWD if folder is None else self.arguments[folder]
        return _read_path(self.thread, start, self.arguments[path])


def list_numbers(machine: str) -> Sequence[int]:
    """Return the numbers of all traced calls of a machine, except opens."""
    return [number for table in (MOVES, STARTS, ACCESSES, READLINKS, MKDIRS) for number in table[machine]]


def _read_path(thread: int, folder: int, address: int) -> str:
    """Return the absolute form of a path in a thread's memory, which starts from a folder that the thread has open."""
    path = os.fsdecode(_read_memory(thread, address, PATH_MAX).partition(b"\0")[0])
    if path.startswith("/"):
        return f"/proc/{thread}/fd/{STREAMS[path]}" if path in STREAMS else ITSELF.sub(f"/proc/{thread}", path)
    start = "cwd" if folder & 0xFFFFFFFF == AT_FDCWD else f"fd/{folder & 0xFFFFFFFF}"
    return os.path.join(os.readlink(f"/proc/{thread}/{start}"), path)


def _read_memory(thread: int, address: int, size: int) -> bytes:
    memory = os.open(f"/proc/{thread}/mem", os.O_RDONLY)
    try:
        return os.pread(memory, size, address)
    finally:
        os.close(memory)
