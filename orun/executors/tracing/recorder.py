"""Files that Python opens, programs that it starts and folders that it lists, by an audit hook.

The hook is installed in the fork server, so that what a library reads while it is imported beforehand is known to the
stages that share it. A hook must never raise: that would make the user's own call fail.
"""
# ruff: noqa: PTH100, PTH110, PTH112, PTH114, PTH116, PTH118  (strings: every file that a stage opens passes here)

from __future__ import annotations

import importlib.util
import os
import stat
import sys
from collections.abc import Callable
from typing import Any

from orun.executors.job import Signature
from orun.executors.tracing.frames import FINDERS, calling
from orun.executors.tracing.scope import Scope, scope_of
from orun.fs.observed_state import listing_digest

WRITES = os.O_WRONLY | os.O_RDWR
BYPRODUCTS = "/__pycache__/"  # caches beside code, but for byte code, which stands for its source
SHARED = "-shm"  # SQLite's index of a database's log, which whoever reads writes to as well: no content of its own
LONGEST_LINE = 256  # bytes of a first line that Linux looks at
OF_A_PROCESS = ("/proc/", "/dev/")  # where names lead to other files in each process: /proc/self/fd/3, /dev/stdin
NAMELESS, REMOVED = "/proc/self/fd", " (deleted)"  # stands for what a process has open that has no name any more
LISTERS = frozenset({"os", "pathlib", "glob", "shutil"})  # modules that list folders for their callers


class Recorder:
    """What has been read since `install`.

    Attributes:
        reads: absolute path -> signature when it was first opened, or None when it was not there.
        listings: absolute path of a folder -> digest of its names when it was first listed.
        written: what this process has made, removed or opened for writing -> whether only to add to its end; what it
            reads of it later is its own.
        missed: what was to be opened if it had been there, and else to be made.
        sought: of `reads`, what was not there.
    """

    def __init__(self) -> None:
        self.reads: dict[str, Signature | None] = {}
        self.listings: dict[str, str] = {}
        self.written: dict[str, bool] = {}
        self.missed: set[str] = set()
        self.sought: dict[str, bool] = {}
        self._scope = scope_of()
        self._passed: set[str] = set()
        self._paused = False
        self._handlers: dict[str, Callable[..., None]] = {}

    def install(self) -> None:
        """Begin; there is no way to end it but the end of the process."""
        self._handlers = {
            "open": self._opened,
            "os.listdir": self._listed,
            "os.scandir": self._listed,
            "os.rename": self._renamed,
            "os.link": self._linked,
            "os.symlink": self._linked,
            "os.mkdir": self._made_folder,
            "os.remove": self._made,
            "os.rmdir": self._made,
            "shutil.rmtree": self._made,
            "subprocess.Popen": self._launched,
            "os.posix_spawn": lambda program, _, environment: self._launched(program, (), None, environment),
        }
        sys.addaudithook(self._hook)

    def pause(self) -> None:
        """Take no notice of what is read, until `resume` or `narrow`."""
        self._paused = True

    def resume(self) -> None:
        """Take notice again."""
        self._paused = False

    def narrow(self, scope: Scope) -> None:
        """From now on, and of what was read before, keep what is in the scope."""
        self._scope = scope
        self._passed.clear()
        self.resume()
        self.reads = {path: signature for path, signature in self.reads.items() if scope.is_discovery(path)}
        self.listings = {path: digest for path, digest in self.listings.items() if scope.is_discovery(path)}
        self.sought = {path: True for path, signature in self.reads.items() if signature is None}

    def read(self, path: str) -> None:
        """Note that a file is read, or looked for, now."""
        if path in self.reads or path in self.written or path in self._passed:
            return
        source = source_of(path)
        self._passed.add(path)
        if BYPRODUCTS in source or not self._scope.is_discovery(source):
            return
        signature, regular = signature_of(source)
        if regular:
            self.reads.setdefault(source, signature)
            if signature is None:
                self.sought[source] = True

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        handler = self._handlers.get(event)
        if handler and not self._paused:
            try:
                handler(*arguments)
            except (OSError, ValueError, TypeError):  # not a path that can be opened: the call itself says so
                return

    def opened(self, path: str, flags: int) -> None:
        """Note that a file is about to be opened, with the flags of `os.open`."""
        if flags & os.O_DIRECTORY:
            return
        name = absolute(path)
        if name.endswith(SHARED) and name.removesuffix(SHARED) in self.reads:
            return
        made = flags & os.O_CREAT and not os.path.exists(name)
        emptied = flags & os.O_TRUNC or made
        if made and flags & WRITES == os.O_RDWR and not flags & (os.O_TRUNC | os.O_EXCL):
            self._miss(name)
        if flags & WRITES != os.O_WRONLY and not emptied:
            self.read(name)
        if flags & WRITES:
            self._write(name, adds=bool(flags & os.O_APPEND))

    def _miss(self, path: str) -> None:
        if path not in self.written and self._scope.is_discovery(path):
            self.missed.add(path)

    def _opened(self, path: Any, _mode: str | None, flags: int) -> None:
        if not isinstance(path, int):
            self.opened(os.fsdecode(path), flags)

    def _renamed(self, source: Any, target: Any, *_folders: int) -> None:
        self.moved(os.fsdecode(source), os.fsdecode(target))

    def moved(self, source: str, target: str, *, stays: bool = False) -> None:
        """Note that a file or folder is about to get another name: its content is taken, though nobody opens it.

        Args:
            source: its name.
            target: the new one.
            stays: whether it keeps the old one, too; a link changes its signature, so that it is not noted as read.
        """
        if not stays:
            self._read_below(absolute(source))
            self._made(source)
        self._made(target)

    def started(self, program: str) -> None:
        """Note that a program is about to be started: it, and what its first line names, the kernel opens itself.

        Which folders of the machine's own `PATH` do not have it says nothing of the stage.
        """
        name = absolute(program)
        if self._scope.is_code(name) or os.path.exists(name):
            self.read(name)
        if self.reads.get(name):
            with open(name, "rb") as file:  # noqa: PTH123 - as above
                first = file.readline(LONGEST_LINE)
            if first.startswith(b"#!") and (words := first[2:].split()):
                self.read(absolute(os.fsdecode(words[0])))

    def _launched(self, program: Any, _arguments: Any, folder: Any = None, environment: Any = None) -> None:
        """Note a program that is found as `execvp` finds it: by its path, or in the first folder that has it."""
        name = os.fsdecode(program)
        if "/" in name:
            self.started(os.path.join(os.fsdecode(folder or ""), name))
            return
        for place in os.get_exec_path(environment):
            self.started(os.path.join(place, name))
            if os.access(os.path.join(place, name), os.X_OK):
                return

    def _read_below(self, path: str) -> None:
        if not os.path.isdir(path) or os.path.islink(path):
            self.read(path)
        elif self._scope.is_discovery(path) and path not in self.written:
            self._paused = True
            try:
                files = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
            finally:
                self._paused = False
            for file in files:
                self.read(file)

    def _linked(self, _source: Any, target: Any, *_folders: int) -> None:
        self._made(target)

    def _made_folder(self, path: Any, *_: Any) -> None:
        if not os.path.lexists(os.fsdecode(path)):  # else the call fails, or has been told not to mind
            self._made(path)

    def _made(self, path: Any, *_: Any) -> None:
        """Note that it is for the stage whether something is there."""
        self._write(absolute(os.fsdecode(path)))

    def _write(self, path: str, *, adds: bool = False) -> None:
        if self._scope.is_discovery(path):
            self.written[path] = adds and self.written.get(path, True)

    def _listed(self, folder: Any = None) -> None:
        if isinstance(folder, int):
            folder = f"/proc/self/fd/{folder}"
        name = absolute(os.fsdecode(folder or "."))
        if name in self.listings or name in self.written or not self._scope.is_discovery(name):
            return
        if self._looks_for_modules(name):
            return
        self.listings[name] = listing_digest(name)

    def _looks_for_modules(self, folder: str) -> bool:
        """Whether a library lists a folder to find modules in it, or this class to take its digest.

        For the project's code to list the modules of its own package is to ask which plug-ins there are: that counts.
        """
        module, file = calling(LISTERS, depth=3)
        if module == "pkgutil" and self._scope.is_code(folder) and folder not in sys.path:
            return not self._scope.is_code(calling(LISTERS | {module}, depth=3)[1])
        if module in FINDERS or file == listing_digest.__code__.co_filename:
            return True
        return folder in sys.path and not self._scope.is_code(file)


def absolute(path: str) -> str:
    """Return the absolute form of a path; links are followed where `..` needs it, or other processes lack them."""
    name = os.path.realpath(path) if ".." in path else os.path.abspath(path)
    if not name.startswith(OF_A_PROCESS):
        return name
    real = os.path.realpath(name)
    return NAMELESS if real.endswith(REMOVED) and not os.path.exists(real) else real


def signature_of(path: str) -> tuple[Signature | None, bool]:
    """Its signature, None when nothing is there; and whether it is a regular file or nothing at all."""
    try:
        status = os.stat(path)
    except OSError:
        return None, True
    signature = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return signature, stat.S_ISREG(status.st_mode)


def source_of(path: str) -> str:
    """Return the source that a cached byte code stands for, else the path itself."""
    if not path.endswith(".pyc"):
        return path
    try:
        source = importlib.util.source_from_cache(path)
    except ValueError:  # byte code without a source
        return path
    return source if os.path.exists(source) else path
