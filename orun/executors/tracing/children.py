"""Installed modules that the processes load which a stage starts, by the files that these open.

A program's packages are all that it loads. What it looks for in vain nobody tells, but for the statements in scripts of
the user's (`native.py`); workers of a pool tell that themselves (`forks.py`).
"""
# ruff: noqa: PTH123, PTH208  (strings: every file that a stage opens passes here)

from __future__ import annotations

import contextlib
import functools
import os
import re

from orun.environment.distributions import PACKAGES
from orun.environment.python_path import PACKAGE
from orun.executors.tracing.packages import OWN as LIBRARIES

FOLDER = "-packages/"  # what is common to their ends
SUFFIXES = (".py", ".pyc", ".so")
OWN = f"{PACKAGE}/"
IMPORTED = re.compile(r"(?:\bimport\s+|__import__\(['\"])(\w+)")


class Children:
    """The modules by process.

    Args:
        stage: id of the process of the stage, which tells of itself.

    Attributes:
        code: Python files that are not installed, sources or byte code, which programs have opened.
    """

    def __init__(self, stage: int) -> None:
        self.code: set[str] = set()
        self._stage = stage
        self._leaders: dict[int, int] = {}  # thread -> its process
        self._loaded: dict[int, set[str]] = {}
        self._programs: set[int] = set()  # processes that have begun anew as another program
        self._ours: set[int] = set()  # those that run orun's code

    def process_of(self, thread: int) -> int:
        """The process of a thread, as it is known or as the kernel has it now."""
        if thread == self._stage:  # nearly always
            return thread
        return self._leaders.get(thread) or _process_of(thread)

    def started(self, thread: int, process: int) -> None:
        """Note that a thread is about to become another program."""
        self._leaders[thread] = process
        self._programs.add(process)

    def opened(self, thread: int, process: int, path: str) -> None:
        """Note that a thread of a process opens a file."""
        self._leaders[thread] = process
        if process == self._stage:
            return
        if path.startswith(OWN):
            self._ours.add(process)
        elif path.endswith(SUFFIXES) or ".so." in path:
            if name := _module(path):
                self._loaded.setdefault(process, set()).add(name)
            elif process in self._programs and FOLDER not in path:
                self.code.add(path)

    def is_program(self, process: int) -> bool:
        """Return whether a process has become another program."""
        return process in self._programs

    @property
    def modules(self) -> set[str]:
        """Top-level names of the modules that count: of processes that run orun's code, all but its own libraries."""
        return {name for process, names in self._loaded.items() for name in names - self._ignored(process)}

    def _ignored(self, process: int) -> frozenset[str]:
        return LIBRARIES if process in self._ours or process not in self._programs else frozenset()


def _process_of(thread: int) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{thread}/status", "rb", buffering=0) as file:
        return next((int(line.split()[1]) for line in file.readall().splitlines() if line.startswith(b"Tgid:")), thread)
    return thread  # it was killed this moment


def _module(path: str) -> str:
    """The top-level module that a file of installed packages is of; empty when it is none, or Python's at its start."""
    top, folder, inside = path.rpartition(FOLDER)
    folder = f"{top}{folder.rstrip('/')}"
    if not folder.endswith(PACKAGES):
        return ""
    name = inside.removeprefix("__pycache__/").partition("/")[0].partition(".")[0]
    return "" if name in _at_startup(folder) else name


@functools.cache
def _at_startup(folder: str) -> frozenset[str]:
    """The modules that each Python imports as it starts, because a `.pth` file says so."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.endswith(".pth"):
                with open(f"{folder}/{name}", encoding="utf-8", errors="replace") as file:
                    lines = [line for line in file if line.startswith(("import ", "import\t"))]
                found.update(*map(IMPORTED.findall, lines))
    return frozenset(found)
