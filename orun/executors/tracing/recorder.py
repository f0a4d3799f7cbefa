"""Audit hook that records files that Python opens, programs that it starts and folders that it lists.

The fork server installs the hook, so that stages know what a library read as the server imported it. A hook must never
raise: the user's own call would fail.
"""
# ruff: noqa: PTH100, PTH110, PTH112, PTH114, PTH116, PTH118, PTH120  (strings: every file that a stage opens passes here)

from __future__ import annotations

import importlib.util
import os
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any

from orun.executors.tracing.frames import FINDERS, find_caller
from orun.executors.tracing.scope import Scope, build_scope
from orun.fs.observed_state import digest_listing
from orun.fs.signatures import Signature, to_signature

WRITES = os.O_WRONLY | os.O_RDWR
BYPRODUCTS = "/__pycache__/"  # caches beside code, except byte code, which stands for its source
SHARED = "-shm"  # SQLite's index of a database's log, which readers write to as well: no content of its own
LONGEST_LINE = 256  # bytes of the first line that Linux reads
OF_A_PROCESS = ("/proc/", "/dev/")  # names below lead to other files in each process: /proc/self/fd/3, /dev/stdin
NAMELESS, REMOVED = "/proc/self/fd", " (deleted)"  # stands for open files that no longer have a name
TEMPORARY = ("/tmp/", "/var/tmp/")  # noqa: S108 - where programs make folders for a while
LISTERS = frozenset({"os", "pathlib", "glob", "shutil"})  # modules that list folders for their callers


class Recorder:
    """Record of reads and writes since `install`.

    Attributes:
        reads: absolute path -> signature when first opened, or None if missing.
        listings: absolute path of a folder -> digest of its names when first listed.
        written: path that this process created, removed or opened for writing -> whether only to append. Later reads of
            it are the process's own.
        missed: files opened for reading and writing that were missing, and were created.
        missing: the paths of `reads` that were missing.
    """

    def __init__(self) -> None:
        self.reads: dict[str, Signature | None] = {}
        self.listings: dict[str, str] = {}
        self.written: dict[str, bool] = {}
        self.missed: set[str] = set()
        self.missing: dict[str, bool] = {}
        self._scope = build_scope()
        self._seen: set[str] = set()
        self._temporary: set[str] = set()  # folders
        self._paused = False
        self._handlers: dict[str, Callable[..., None]] = {}

    def install(self) -> None:
        """Install the hook; it stays until the process ends."""
        self._handlers = {
            "open": self._on_open,
            "os.listdir": self._on_list,
            "os.scandir": self._on_list,
            "os.rename": self._on_rename,
            "os.link": self._on_link,
            "os.symlink": self._on_link,
            "os.mkdir": self._on_mkdir,
            "os.remove": self._on_change,
            "os.rmdir": self._on_change,
            "shutil.rmtree": self._on_change,
            "subprocess.Popen": self._on_start,
            "os.posix_spawn": lambda program, _, environment: self._on_start(program, (), None, environment),
        }
        sys.addaudithook(self._dispatch)

    def pause(self) -> None:
        """Record nothing until `resume` or `narrow`."""
        self._paused = True

    def resume(self) -> None:
        """Record again."""
        self._paused = False

    def narrow(self, scope: Scope) -> None:
        """Keep what was recorded inside the scope, and record only that from now on."""
        self._scope = scope
        self._seen.clear()
        self.resume()
        self.reads = {path: signature for path, signature in self.reads.items() if scope.is_dependency(path)}
        self.listings = {path: digest for path, digest in self.listings.items() if scope.is_dependency(path)}
        self.missing = {path: True for path, signature in self.reads.items() if signature is None}

    def read(self, path: str) -> None:
        """Record that a file is read now, or missing."""
        if path in self.reads or path in self.written or path in self._seen:
            return
        source = find_source(path)
        self._seen.add(path)
        if BYPRODUCTS in source or not self._scope.is_dependency(source) or self.is_temporary(source):
            return
        try:
            status = os.stat(source)
        except OSError:
            self.reads.setdefault(source, None)
            self.missing[source] = True
            return
        if stat.S_ISREG(status.st_mode):
            self.reads.setdefault(source, to_signature(status))

    def _dispatch(self, event: str, arguments: tuple[Any, ...]) -> None:
        handler = self._handlers.get(event)
        if handler and not self._paused:
            try:
                handler(*arguments)
            except (OSError, ValueError, TypeError):  # no valid path: the call itself fails
                return

    def add_open(self, path: str, flags: int) -> None:
        """Record that a file is about to be opened with these flags of `os.open`."""
        if flags & os.O_DIRECTORY:
            return
        name = make_absolute(path)
        if name.endswith(SHARED) and name.removesuffix(SHARED) in self.reads:
            return
        created = flags & os.O_CREAT and not os.path.exists(name)
        emptied = flags & os.O_TRUNC or created
        if created and flags & WRITES == os.O_RDWR and not flags & (os.O_TRUNC | os.O_EXCL):
            self._add_missed(name)
        if flags & WRITES != os.O_WRONLY and not emptied:
            self.read(name)
        if flags & WRITES:
            self._add_write(name, appends=bool(flags & os.O_APPEND))

    def _add_missed(self, path: str) -> None:
        if path not in self.written and self._scope.is_dependency(path):
            self.missed.add(path)

    def _on_open(self, path: Any, _mode: str | None, flags: int) -> None:
        if not isinstance(path, int):
            self.add_open(os.fsdecode(path), flags)

    def _on_rename(self, source: Any, target: Any, *_folders: int) -> None:
        self.add_move(os.fsdecode(source), os.fsdecode(target))

    def add_move(self, source: str, target: str, *, stays: bool = False) -> None:
        """Record that a file or folder is about to be renamed: its content is used, though it is not opened.

        Args:
            source: its name.
            target: its new name.
            stays: whether it keeps the old name, too. A link changes the signature, so no read is recorded.
        """
        if not stays:
            self._read_below(make_absolute(source))
            self._on_change(source)
        self._on_change(target)

    def add_temporary(self, path: str) -> None:
        """Record a folder that is about to be made, if it is a temporary one: all that appears in it is the stage's."""
        if path.startswith(TEMPORARY) and not self._scope.is_code(path) and not os.path.lexists(path):
            self._temporary.add(os.path.realpath(path))

    def is_temporary(self, path: str) -> bool:
        """Return whether a path leads into a temporary folder of the stage, and not by a link to another folder."""
        if not self._temporary or not path.startswith(TEMPORARY):
            return False
        return any(folder in self._temporary for folder in _iter_folders_above(os.path.realpath(path)))

    def add_start(self, program: str) -> None:
        """Record a program that is about to be started, and its interpreter: the kernel itself opens both.

        A missing program in a folder of the machine's own `PATH` does not concern the stage.
        """
        name = make_absolute(program)
        if self._scope.is_code(name) or os.path.exists(name):
            self.read(name)
        if self.reads.get(name):
            with open(name, "rb") as file:  # noqa: PTH123 - as above
                first_line = file.readline(LONGEST_LINE)
            if first_line.startswith(b"#!") and (command := first_line[2:].split()):
                self.read(make_absolute(os.fsdecode(command[0])))

    def _on_start(self, program: Any, _arguments: Any, folder: Any = None, environment: Any = None) -> None:
        """Record a program as `execvp` finds it: by its path, or in the first folder of `PATH` that has it."""
        name = os.fsdecode(program)
        if "/" in name:
            self.add_start(os.path.join(os.fsdecode(folder or ""), name))
            return
        for directory in os.get_exec_path(environment):
            self.add_start(os.path.join(directory, name))
            if os.access(os.path.join(directory, name), os.X_OK):
                return

    def _read_below(self, path: str) -> None:
        if not os.path.isdir(path) or os.path.islink(path):
            self.read(path)
        elif self._scope.is_dependency(path) and path not in self.written:
            self._paused = True
            try:
                files = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
            finally:
                self._paused = False
            for file in files:
                self.read(file)

    def _on_link(self, _source: Any, target: Any, *_folders: int) -> None:
        self._on_change(target)

    def _on_mkdir(self, path: Any, *_: Any) -> None:
        if not os.path.lexists(os.fsdecode(path)):  # otherwise the call changes nothing
            self.add_temporary(make_absolute(os.fsdecode(path)))
            self._on_change(path)

    def _on_change(self, path: Any, *_: Any) -> None:
        """Record that the stage itself decides whether a path exists."""
        self._add_write(make_absolute(os.fsdecode(path)))

    def _add_write(self, path: str, *, appends: bool = False) -> None:
        if self._scope.is_dependency(path):
            self.written[path] = appends and self.written.get(path, True)

    def _on_list(self, folder: Any = None) -> None:
        if isinstance(folder, int):
            folder = f"/proc/self/fd/{folder}"
        name = make_absolute(os.fsdecode(folder or "."))
        if name in self.listings or name in self.written or not self._scope.is_dependency(name):
            return
        if self.is_temporary(name) or self._is_module_search(name):
            return
        self.listings[name] = digest_listing(name)

    def _is_module_search(self, folder: str) -> bool:
        """Return whether a library lists a folder to find modules, or `digest_listing` lists it.

        It counts if the project's code lists the modules of its own package: these are its plug-ins.
        """
        module, file = find_caller(LISTERS, depth=3)
        if module == "pkgutil" and self._scope.is_code(folder) and folder not in sys.path:
            return not self._scope.is_code(find_caller(LISTERS | {module}, depth=3)[1])
        if module in FINDERS or file == digest_listing.__code__.co_filename:
            return True
        return folder in sys.path and not self._scope.is_code(file)


def make_absolute(path: str) -> str:
    """Return the absolute form of a path; links are followed for `..`, and if they differ between processes."""
    name = os.path.realpath(path) if ".." in path else os.path.abspath(path)
    if not name.startswith(OF_A_PROCESS):
        return name
    real = os.path.realpath(name)
    return NAMELESS if real.endswith(REMOVED) and not os.path.exists(real) else real


def _iter_folders_above(path: str) -> Iterator[str]:
    """Yield a path and the folders above it, the root aside."""
    while len(path) > 1:
        yield path
        path = os.path.dirname(path)


def find_source(path: str) -> str:
    """Return the source of a byte code file, or else the path itself."""
    if not path.endswith(".pyc"):
        return path
    try:
        source = importlib.util.source_from_cache(path)
    except ValueError:  # byte code without a source
        return path
    return source if os.path.exists(source) else path
