"""Installed modules that child processes load, by the files that these open.

Everything that a program loads counts. Which modules it misses is known only from the import statements in the user's
scripts (`native.py`). Workers of a pool record their searches themselves (`forked_workers.py`).
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

FOLDER = "-packages/"  # common end of the folders of installed packages
SUFFIXES = (".py", ".pyc", ".so")
OWN = f"{PACKAGE}/"
IMPORTED = re.compile(r"(?:\bimport\s+|__import__\(['\"])(\w+)")


class ChildModules:
    """Modules by child process.

    The stage's own process records its modules itself.

    Attributes:
        code: Python files that are not installed, sources or byte code, which programs have opened.
    """

    def __init__(self, stage: int) -> None:
        self.code: set[str] = set()
        self._stage = stage
        self._process_of_thread: dict[int, int] = {}
        self._loaded: dict[int, set[str]] = {}
        self._programs: set[int] = set()  # processes that have started another program
        self._ours: set[int] = set()  # processes that run orun's code

    def find_process(self, thread: int) -> int:
        """Return the process of a thread, as known or as the kernel has it now."""
        if thread == self._stage:  # nearly always
            return thread
        return self._process_of_thread.get(thread) or _read_process(thread)

    def add_start(self, thread: int, process: int) -> None:
        """Note that a process is about to become another program."""
        self._process_of_thread[thread] = process
        self._programs.add(process)

    def add_open(self, thread: int, process: int, path: str) -> None:
        """Note that a process opens a file."""
        self._process_of_thread[thread] = process
        if process == self._stage:
            return
        if path.startswith(OWN):
            self._ours.add(process)
        elif path.endswith(SUFFIXES) or ".so." in path:
            if name := _find_module(path):
                self._loaded.setdefault(process, set()).add(name)
            elif process in self._programs and FOLDER not in path:
                self.code.add(path)

    def is_program(self, process: int) -> bool:
        """Return whether a process has become another program."""
        return process in self._programs

    @property
    def modules(self) -> set[str]:
        """Top-level names of the modules that count; in processes with orun's code its own libraries do not."""
        return {name for process, names in self._loaded.items() for name in names - self._list_ignored(process)}

    def _list_ignored(self, process: int) -> frozenset[str]:
        return LIBRARIES if process in self._ours or process not in self._programs else frozenset()


def _read_process(thread: int) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{thread}/status", "rb", buffering=0) as file:
        return next((int(line.split()[1]) for line in file.readall().splitlines() if line.startswith(b"Tgid:")), thread)
    return thread  # it was killed just now


def _find_module(path: str) -> str:
    """Return the top-level module of a file in installed packages; "" for other files and modules of the startup."""
    top, folder, inside = path.rpartition(FOLDER)
    folder = f"{top}{folder.rstrip('/')}"
    if not folder.endswith(PACKAGES):
        return ""
    name = inside.removeprefix("__pycache__/").partition("/")[0].partition(".")[0]
    return "" if name in _list_startup_modules(folder) else name


@functools.cache
def _list_startup_modules(folder: str) -> frozenset[str]:
    """Return the modules that every Python imports as it starts because of `.pth` files."""
    modules: set[str] = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.endswith(".pth"):
                with open(f"{folder}/{name}", encoding="utf-8", errors="replace") as file:
                    lines = [line for line in file if line.startswith(("import ", "import\t"))]
                modules.update(*map(IMPORTED.findall, lines))
    return frozenset(modules)
