"""Files that a stage opens below Python: by native code (memory-mapped weights, tokenizers) and by its child processes.

Ways to see them, tried on Linux 6.18 with 20,000 opens of one file (8 us each when nobody looks):

| way | cost | verdict |
|---|---|---|
| inotify | 9 us a folder, none an open | sees any process: an editor's opens would be blamed on the stage |
| fanotify | not measured | without privileges it refuses mounts, and sees only marked folders and its own process |
| `/proc/self/maps` | none | shows only what is mapped at the moment one looks |
| `LD_PRELOAD` | none | needs a compiled library for each platform; misses static programs, direct system calls |
| ptrace, with a seccomp filter | 80 us an open | excludes debuggers; often forbidden in containers |
| seccomp notifications | 20 us an open | chosen: no privileges; sees the stage and all it starts, and nothing else |

The filter tells the supervisor of each `open`, `openat` and `openat2`, of what gives files other names, of questions
(`access`, `readlink`), and of programs that are started; the supervisor takes the file's signature and lets the call go
on. Other calls are decided once and for all in the kernel (a bitmap since Linux 5.11) and cost nothing measurable.
`SPEC_ALLOW` keeps kernels before 5.16 from slowing the process down by mitigations that it does not need. Not seen:
`stat` (see `ACCESSES`), io_uring, file handles, and whose content a hard link takes. The price: no program that a stage
starts can gain privileges (sudo). Where the kernel refuses (containers with filters of their own, other systems) or
lets no process read another's memory (Yama), Python's audit hook is what remains, and the stage's record says so
(`trace: python`).

A report holds a thread id and addresses in the memory of that thread. When the thread is killed or interrupted before
the answer, its id may be another's: so what was read by it counts only if the report still waits afterwards
(`SECCOMP_IOCTL_NOTIF_ID_VALID`).
"""
# ruff: noqa: PTH115, PTH118, PTH120  (strings: every file that a stage opens passes here)

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import platform
import re
import select
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec, source_from_cache
from typing import Any

from orun.core.serialization import Record
from orun.environment.processes import libc
from orun.executors.tracing.children import Children
from orun.executors.tracing.imports import unnoted
from orun.executors.tracing.modules import candidates
from orun.executors.tracing.packages import imports_of, packages_of, places, stands_alone
from orun.executors.tracing.recorder import WRITES, Recorder, absolute, source_of
from orun.executors.tracing.scope import Scope
from orun.fs.observed_state import appearance, tells_more
from orun.stages.bytecode import may_be_stale

with contextlib.suppress(ModuleNotFoundError):  # Windows
    import fcntl

PLAIN = (None, 0), (None, 1)
FROM_FOLDERS = (0, 1), (2, 3)
# Audit architecture, number of seccomp, then those of openat, open and creat (which not every architecture has) and
# openat2, each with the place of the flags among its arguments; openat2 is given a pointer to them, creat none.
ARCHITECTURES: Mapping[str, tuple[int, int, Mapping[int, int | None]]] = {
    "x86_64": (0xC000003E, 317, {257: 2, 2: 1, 85: None, 437: None}),
    "aarch64": (0xC00000B7, 277, {56: 2, 437: None}),
}
OPEN, CREAT, OPENAT2 = 2, 85, 437
# By machine the numbers of rename, renameat, renameat2, link and linkat, each with the places of both paths among its
# arguments and of the folders that these start from; then those of them that leave the first path where it is.
MOVES: Mapping[str, Mapping[int, tuple[tuple[int | None, int], tuple[int | None, int]]]] = {
    "x86_64": {82: PLAIN, 264: FROM_FOLDERS, 316: FROM_FOLDERS, 86: PLAIN, 265: FROM_FOLDERS},
    "aarch64": {38: FROM_FOLDERS, 276: FROM_FOLDERS, 37: FROM_FOLDERS},
}
LINKS = {"x86_64": {86, 265}, "aarch64": {37}}
# By machine those of execve and execveat, likewise: the kernel opens a program by itself.
STARTS: Mapping[str, Mapping[int, tuple[int | None, int]]] = {
    "x86_64": {59: (None, 0), 322: (0, 1)},
    "aarch64": {221: (None, 0), 281: (0, 1)},
}
# By machine those of access, faccessat and faccessat2, which ask whether a file may be used; then of readlink and
# readlinkat, which ask where a link leads. To be told of `stat` and its like as well would cost twelve times as many
# reports, as each import asks so several times: 16,700 beside 1,400 opens for PyTorch, 1,440 beside 190 for git status.
ACCESSES: Mapping[str, Mapping[int, tuple[int | None, int]]] = {
    "x86_64": {21: (None, 0), 269: (0, 1), 439: (0, 1)},
    "aarch64": {48: (0, 1), 439: (0, 1)},
}
READLINKS: Mapping[str, Mapping[int, tuple[int | None, int]]] = {
    "x86_64": {89: (None, 0), 267: (0, 1)},
    "aarch64": {78: (0, 1)},
}
PR_SET_NO_NEW_PRIVS = 38
SET_MODE_FILTER, SPEC_ALLOW, NEW_LISTENER = 1, 1 << 2, 1 << 3
ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000
LOAD, EQUAL, ANY, RETURN = 0x20, 0x15, 0x45, 0x06  # instructions of a filter
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # where a filter finds these
RECEIVE, SEND, CONTINUE = 0xC0502100, 0xC0182101, 1
ID_VALID = 0x80082102  # as kernels before 5.9 have it; later ones take this number as well as 0x40082102
REQUEST, ANSWER, TOKEN = struct.Struct("QII iIQ 6Q"), struct.Struct("QqiI"), struct.Struct("Q")
AT_FDCWD = 2**32 - 100
ITSELF = re.compile(r"^/+proc/+(?:thread-)?self(?=/)|^/+dev(?=/+fd/)")  # the process that asks, in the name of a file
STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
BYTECODE = ".pyc"
FIRST_KERNEL = (5, 5)  # that lets a call go on when it is told to
PATH_MAX = 4096
AT_A_TIME = 100  # so that a stage that opens many files does not keep its supervisor from the others
REFUSED = "the system refuses it, as a container's seccomp profile may"
REFUSALS: Mapping[int, str] = {
    errno.EBUSY: "this orun runs in a process that is traced in the same way, as a stage of another orun is",
    errno.ENOSYS: "the kernel has no seccomp notifications",
    errno.EINVAL: "the kernel has no seccomp notifications, or is gVisor",
}
PROTECTED = "a process may not read the memory of another one (Yama's ptrace_scope, or a program that protects itself)"


class Untraced(Exception):
    """The system does not report the files that are opened below Python; the text says why."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def listen() -> int:
    """Have this process and all that it starts report the files that they open.

    Returns:
        The descriptor that the reports are read from. From here on, every open waits until its report is answered.

    Raises:
        Untraced: where the system has no such thing, or refuses it.
    """
    arguments = make_ready()
    if not arguments:
        raise Untraced(why_unknown())
    listener: int = -1 if libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) else libc().syscall(*arguments)
    if listener < 0:
        number = ctypes.get_errno()
        raise Untraced(f"{REFUSALS.get(number, REFUSED)} (seccomp: {os.strerror(number)})")
    return listener


@functools.cache
def make_ready() -> tuple[Any, ...]:
    """The arguments of the system call; empty where there is none. To be called before a fork, as it takes a while."""
    if why_unknown():
        return ()
    code = _filter(platform.machine())
    program = _Program(len(code) // 8, code)
    number = ARCHITECTURES[platform.machine()][1]
    return number, SET_MODE_FILTER, NEW_LISTENER | SPEC_ALLOW, ctypes.byref(program)


def why_unknown() -> str:
    """Why this system has no such reports; empty when it should have them."""
    if sys.platform != "linux":
        return f"only Linux reports it, and this is {platform.system()}"
    if platform.machine() not in ARCHITECTURES:
        return f"orun knows the system calls of {' and '.join(ARCHITECTURES)}, and this is {platform.machine()}"
    if _kernel() < FIRST_KERNEL:
        return f"it takes Linux 5.5, and this is {platform.release()} (gVisor calls itself 4.4.0)"
    return ""


def _kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])


def _filter(architecture: str) -> bytes:
    """The BPF program: notify of these system calls, unless it is a folder that they open, and allow all others."""
    audit, _, calls = ARCHITECTURES[architecture]
    rows = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, audit), (RETURN, 0, 0, ALLOW), (LOAD, 0, 0, NUMBER)]
    others = (MOVES, STARTS, ACCESSES, READLINKS)
    numbers = (number for table in others for number in table[architecture])
    for number, flags in (*calls.items(), *dict.fromkeys(numbers).items()):
        told = [(RETURN, 0, 0, NOTIFY)]
        if flags is not None:
            told = [(LOAD, 0, 0, ARGUMENTS + 8 * flags), (ANY, 0, 1, os.O_DIRECTORY), (RETURN, 0, 0, ALLOW), *told]
        rows += [(EQUAL, 0, len(told), number), *told]
    rows.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("HBBI", *row) for row in rows)


class Report(Record, frozen=True):
    """A system call of a stage that waits for an answer.

    Attributes:
        token: the kernel's name for it.
        thread: id of the thread that waits.
        number: of the system call.
        arguments: of the system call.
    """

    token: int
    thread: int
    number: int
    arguments: tuple[int, ...]


class NativeReads:
    """Answers the reports of one stage.

    Args:
        listener: the descriptor that `listen` returned in the stage's process.
        scope: tells discoveries from other files.
        stage: id of that process.
        package: an installed one whose content counts for the stage: that of a plug-in.

    Attributes:
        recorder: what was read and created.
        probed: what was asked for without being opened (`orun.fs.observed_state.appearance`).
        children: what the processes have loaded that it started.
        untraced: why some reports could not be read; empty when all could.
    """

    def __init__(self, listener: int, scope: Scope, stage: int, package: str = "") -> None:
        self._listener = listener
        self._package = package
        self._scope = scope
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)
        self.children = Children(stage)
        self.probed: dict[str, str] = {}
        self.recorder = Recorder()
        self.recorder.narrow(scope)
        self.untraced = ""

    def fileno(self) -> int:
        """Its descriptor, for a selector."""
        return self._listener

    def answer(self) -> bool:
        """Answer reports that wait, some at a time; False when no process is left that could report."""
        for _ in range(AT_A_TIME):
            waiting = self._poll.poll(0)
            if not waiting:
                break
            if not waiting[0][1] & select.POLLIN:
                return False
            # A report is gone when its process was killed, or interrupted by a signal and will ask again.
            with contextlib.suppress(FileNotFoundError, InterruptedError):
                self.reply(self.receive())
        return True

    def receive(self) -> Report:
        """Wait for the next report.

        Raises:
            FileNotFoundError, InterruptedError: it was gone before it could be received.
        """
        report = bytearray(REQUEST.size)
        fcntl.ioctl(self._listener, RECEIVE, report)
        token, thread, _, number, _, _, *arguments = REQUEST.unpack(report)
        return Report(token, thread, number, tuple(arguments))

    def reply(self, report: Report) -> None:
        """Note what a report tells, and let its system call go on, or find nothing.

        Raises:
            FileNotFoundError: the report does not wait any more.
        """
        stale = False
        try:
            # Whatever cannot be read of the process is not noted: it ended, or its call is about to fail.
            with contextlib.suppress(OSError, ValueError):
                stale = self._note(report)
        finally:
            answer = (report.token, 0, -errno.ENOENT, 0) if stale else (report.token, 0, 0, CONTINUE)
            self._send(ANSWER.pack(*answer))

    def _note(self, report: Report) -> bool:
        """Note what a call does; whether it is to find nothing."""
        try:
            paths, flags = _read(report)
        except PermissionError:
            self.untraced = PROTECTED
            raise
        process = self.children.process_of(report.thread)
        self._require_waiting(report)  # else all this is of another process
        if report.number in STARTS[platform.machine()]:
            self.children.started(report.thread, process)
            self.recorder.started(*paths)
            return False
        if report.number in MOVES[platform.machine()]:
            self.recorder.moved(*paths, stays=report.number in LINKS[platform.machine()])
            return False
        if (links := report.number in READLINKS[platform.machine()]) or report.number in ACCESSES[platform.machine()]:
            self._probe(process, absolute(paths[0]), links=links)
            return False
        path = paths[0]
        self.recorder.opened(path, flags)
        self.children.opened(report.thread, process, path)
        return path.endswith(BYTECODE) and not flags & WRITES and self._is_stale(path)

    def _require_waiting(self, report: Report) -> None:
        """Raise FileNotFoundError unless the report still waits, so that its thread is the one that made it."""
        fcntl.ioctl(self._listener, ID_VALID, TOKEN.pack(report.token))

    def _probe(self, process: int, path: str, *, links: bool) -> None:
        """Note what is at a path now.

        What a program asks counts as what it opens does. In the stage's own process nobody tells whether the project's
        code asks or a library: outside the project only `probes.py` does.
        """
        if links and self._scope.is_above(path):  # each folder on the way to a file is asked for, up to the root
            return
        known = self.probed.get(path)
        if known is None or (links and not tells_more(known)):
            counts = self._scope.is_discovery if self.children.is_program(process) else self._scope.is_code
            if counts(path):
                self.probed[path] = appearance(path, link=links, target=links)

    def _is_stale(self, path: str) -> bool:
        """Whether byte code may be of another text than its source: a Python that the stage starts goes without it."""
        source = source_from_cache(path)
        plugged = self._package != "" and self._package in source.split("/")
        counts = plugged or stands_alone(source) or self._scope.is_discovery(source)
        return counts and may_be_stale(source, path)

    def _send(self, answer: bytes) -> None:
        while True:
            try:
                fcntl.ioctl(self._listener, SEND, bytearray(answer))
            except InterruptedError:  # by a signal of the supervisor's own: the process still waits
                continue
            return

    def packages(self) -> dict[str, str]:
        """Distribution -> version of those that the processes have loaded which the stage started.

        Of what they look for in vain only the statements in the user's scripts tell.
        """
        with unnoted():
            return self._packages()

    def _packages(self) -> dict[str, str]:
        specs = {name: find_spec(name) for name in self.children.modules}
        found = {name: places(spec) for name, spec in specs.items() if spec}
        scripts = [path for path in map(source_of, self.children.code) if self._scope.is_code(path)]
        folders = sorted({os.path.dirname(path) for path in scripts})
        absent = {name for name in imports_of(scripts) - found.keys() if not _is_there(name, folders)}
        for name in sorted(absent):
            for path in candidates(folders, name):
                self.recorder.read(path)
        return packages_of(found, absent)

    def close(self) -> None:
        """Stop listening."""
        os.close(self._listener)


def _is_there(module: str, folders: Iterable[str]) -> bool:
    """Whether scripts in these folders find a module, beside them or installed."""
    beside = (path for folder in folders for path in (f"{folder}/{module}", f"{folder}/{module}.py"))
    return any(map(os.path.exists, beside)) or find_spec(module) is not None


def _read(report: Report) -> tuple[tuple[str, ...], int]:
    """The absolute paths that a call names, from the memory of its process, and its flags if it opens a file."""
    thread, number, arguments = report.thread, report.number, report.arguments
    for table in (STARTS, ACCESSES, READLINKS):
        if place := table[platform.machine()].get(number):
            return (_named(thread, arguments, place),), 0
    if ends := MOVES[platform.machine()].get(number):
        return tuple(_named(thread, arguments, place) for place in ends), 0
    path, flags = _opened(thread, number, arguments)
    return (path,), flags


def _opened(process: int, number: int, arguments: Sequence[int]) -> tuple[str, int]:
    """The absolute path and the flags of a call."""
    if number == CREAT:
        return _path(process, AT_FDCWD, arguments[0]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    folder, address, flags = (AT_FDCWD, *arguments[:2]) if number == OPEN else arguments[:3]
    if number == OPENAT2:  # a pointer to a structure that begins with the flags
        flags = int.from_bytes(_memory(process, flags, 8), sys.byteorder)
    return _path(process, folder, address), flags


def _named(process: int, arguments: Sequence[int], place: tuple[int | None, int]) -> str:
    """The absolute path that two arguments of a call tell: the folder that it starts from, if one is named, and it."""
    folder, path = place
    return _path(process, AT_FDCWD if folder is None else arguments[folder], arguments[path])


def _path(process: int, folder: int, address: int) -> str:
    """The absolute form of a path in the memory of a process, which starts from a folder that it has open."""
    path = os.fsdecode(_memory(process, address, PATH_MAX).partition(b"\0")[0])
    if path.startswith("/"):
        path = f"/proc/{process}/fd/{STREAMS[path]}" if path in STREAMS else ITSELF.sub(f"/proc/{process}", path)
    else:
        start = "cwd" if folder & 0xFFFFFFFF == AT_FDCWD else f"fd/{folder & 0xFFFFFFFF}"
        path = os.path.join(os.readlink(f"/proc/{process}/{start}"), path)
    return path


def _memory(process: int, address: int, size: int) -> bytes:
    memory = os.open(f"/proc/{process}/mem", os.O_RDONLY)
    try:
        return os.pread(memory, size, address)
    finally:
        os.close(memory)
