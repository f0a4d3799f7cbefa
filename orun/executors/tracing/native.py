"""Files that a stage opens below Python: by native code (memory-mapped weights, tokenizers) and by its child processes.

Ways to see them, tried on Linux 6.18 with 20,000 opens of one file (8 us each without tracing):

| way | cost | verdict |
|---|---|---|
| inotify | 9 us a folder, none an open | sees any process: an editor's opens would be attributed to the stage |
| fanotify | not measured | without privileges it refuses mounts, and sees only marked folders and its own process |
| `/proc/self/maps` | none | shows only what is mapped at the moment |
| `LD_PRELOAD` | none | needs a compiled library for each platform; misses static programs, direct system calls |
| ptrace, with a seccomp filter | 80 us an open | excludes debuggers; often forbidden in containers |
| seccomp notifications | 20 us an open | chosen: no privileges; sees the stage and its children, and nothing else |

The filter reports each open, rename, link, probe (`access`, `readlink`), new folder and start of a program to the
supervisor, which records the file's signature and lets the call continue. All other calls are decided in the kernel (by
a bitmap since Linux 5.11) at no measurable cost. `SPEC_ALLOW` spares kernels before 5.16 mitigations that the process
does not need.

Not seen: `stat` (see `syscalls.ACCESSES`), io_uring, file handles, and the content that a hard link shares. A program
that a stage starts cannot gain privileges (sudo). If the kernel refuses the filter (containers with their own filters,
other systems), or no process may read another's memory (Yama), only Python's audit hook remains, and the stage's record
says `trace: python`.

A report holds a thread id and addresses in that thread's memory. If the thread is killed or interrupted before the
answer, its id may be reused. What was read of it counts only if the report still waits afterwards
(`SECCOMP_IOCTL_NOTIF_ID_VALID`).
"""
# ruff: noqa: PTH120  (strings: every file that a stage opens passes here)

from __future__ import annotations

import contextlib
import errno
import os
import select
import struct
from collections.abc import Iterable
from importlib.util import find_spec, source_from_cache

from orun.environment.bytecode import may_be_stale
from orun.executors.tracing.child_modules import ChildModules
from orun.executors.tracing.module_searches import unrecorded
from orun.executors.tracing.packages import find_packages, list_imports, list_spec_files, stands_alone
from orun.executors.tracing.recorder import WRITES, Recorder, find_source, make_absolute
from orun.executors.tracing.scope import Scope
from orun.executors.tracing.syscalls import ACCESSES, MKDIRS, MOVES, READLINKS, STARTS, SystemCall
from orun.executors.tracing.user_modules import iter_candidates
from orun.fs.observed_state import observe_appearance, tells_more

with contextlib.suppress(ModuleNotFoundError):  # Windows
    import fcntl

RECEIVE, SEND, CONTINUE = 0xC0502100, 0xC0182101, 1
ID_VALID = 0x80082102  # number of kernels before 5.9; later ones accept it as well as 0x40082102
REQUEST, ANSWER, TOKEN = struct.Struct("QII iIQ 6Q"), struct.Struct("QqiI"), struct.Struct("Q")
BYTECODE = ".pyc"
AT_A_TIME = 100  # reports, so that a stage that opens many files does not keep its supervisor from the others
PROTECTED = "a process may not read the memory of another one (Yama's ptrace_scope, or a program that protects itself)"


class NativeReads:
    """Tracer of one stage: records what its reports tell, and answers them.

    Args:
        listener: descriptor that `seccomp.listen` returned in the stage's process.
        scope: which files are dependencies.
        stage: id of the stage's process.
        package: an installed package whose files are dependencies: that of a plug-in kind.

    Attributes:
        recorder: files that were read and written.
        probed: path that was probed without being opened -> `orun.fs.observed_state.observe_appearance`.
        children: modules that child processes have loaded.
        untraced: why some reports could not be read; empty if all could.
    """

    def __init__(self, listener: int, scope: Scope, stage: int, package: str = "") -> None:
        self._listener = listener
        self._package = package
        self._scope = scope
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)
        self.children = ChildModules(stage)
        self.probed: dict[str, str] = {}
        self.recorder = Recorder()
        self.recorder.narrow(scope)
        self.untraced = ""

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._listener

    def answer(self) -> bool:
        """Answer some of the waiting reports; return False if no process is left that could report."""
        for _ in range(AT_A_TIME):
            events = self._poll.poll(0)
            if not events:
                break
            if not events[0][1] & select.POLLIN:
                return False
            # A report is gone if its process was killed, or interrupted by a signal, after which it reports again.
            with contextlib.suppress(FileNotFoundError, InterruptedError):
                self.reply(self.receive())
        return True

    def receive(self) -> SystemCall:
        """Wait for the next report.

        Raises:
            FileNotFoundError, InterruptedError: if it is gone before it could be received.
        """
        request = bytearray(REQUEST.size)
        fcntl.ioctl(self._listener, RECEIVE, request)
        token, thread, _, number, _, _, *arguments = REQUEST.unpack(request)
        return SystemCall(token, thread, number, tuple(arguments))

    def reply(self, call: SystemCall) -> None:
        """Record what a call does, and let it continue; stale byte code is reported as missing.

        Raises:
            FileNotFoundError: if the report no longer waits.
        """
        stale = False
        try:
            # What cannot be read of the process is not recorded: it has ended, or its call is about to fail.
            with contextlib.suppress(OSError, ValueError):
                stale = self._record(call)
        finally:
            answer = (call.token, 0, -errno.ENOENT, 0) if stale else (call.token, 0, 0, CONTINUE)
            self._send(ANSWER.pack(*answer))

    def _record(self, call: SystemCall) -> bool:
        """Record what a call does; return whether it opens stale byte code."""
        try:
            paths, flags = call.read_paths()
        except PermissionError:
            self.untraced = PROTECTED
            raise
        process = self.children.find_process(call.thread)
        self._require_waiting(call)  # otherwise this was read of another process
        if call.is_of(STARTS):
            self.children.add_start(call.thread, process)
            self.recorder.add_start(*paths)
            return False
        if call.is_of(MOVES):
            self.recorder.add_move(*paths, stays=call.keeps_source)
            return False
        if call.is_of(MKDIRS):
            self.recorder.add_temporary(make_absolute(paths[0]))
            return False
        if (links := call.is_of(READLINKS)) or call.is_of(ACCESSES):
            self._probe(process, make_absolute(paths[0]), links=links)
            return False
        path = paths[0]
        self.recorder.add_open(path, flags)
        self.children.add_open(call.thread, process, path)
        return path.endswith(BYTECODE) and not flags & WRITES and self._is_stale(path)

    def _require_waiting(self, call: SystemCall) -> None:
        """Raise FileNotFoundError unless the report still waits, so that its thread id is not another's."""
        fcntl.ioctl(self._listener, ID_VALID, TOKEN.pack(call.token))

    def _probe(self, process: int, path: str, *, links: bool) -> None:
        """Record what is at a path now.

        Probes of a program count as its opens do. In the stage's own process it is unknown whether the user's code or a
        library probes: files outside the project are left to `probes.py`.
        """
        if links and self._scope.is_above(path):  # each folder on the way to a file is probed, up to the root
            return
        known = self.probed.get(path)
        if known is None or (links and not tells_more(known)):
            counts = self._scope.is_dependency if self.children.is_program(process) else self._scope.is_code
            if counts(path) and not self.recorder.is_temporary(path):
                self.probed[path] = observe_appearance(path, link=links, target=links)

    def _is_stale(self, path: str) -> bool:
        """Return whether byte code may not match its source; child processes then compile the source."""
        source = source_from_cache(path)
        of_plugin = self._package != "" and self._package in source.split("/")
        counts = of_plugin or stands_alone(source) or self._scope.is_dependency(source)
        return counts and may_be_stale(source, path)

    def _send(self, answer: bytes) -> None:
        while True:
            try:
                fcntl.ioctl(self._listener, SEND, bytearray(answer))
            except InterruptedError:  # by a signal to the supervisor: the process still waits
                continue
            return

    def collect_packages(self) -> dict[str, str]:
        """Return distribution -> version of what child processes have loaded.

        Modules that they miss are known only from the import statements in the user's scripts.
        """
        with unrecorded():
            specs = {name: find_spec(name) for name in self.children.modules}
            modules = {name: list_spec_files(spec) for name, spec in specs.items() if spec}
            scripts = [path for path in map(find_source, self.children.code) if self._scope.is_code(path)]
            folders = sorted({os.path.dirname(path) for path in scripts})
            absent = {name for name in list_imports(scripts) - modules.keys() if not _is_importable(name, folders)}
            for name in sorted(absent):
                for path in iter_candidates(folders, name):
                    self.recorder.read(path)
            return find_packages(modules, absent)

    def close(self) -> None:
        """Stop listening."""
        os.close(self._listener)


def _is_importable(module: str, folders: Iterable[str]) -> bool:
    """Return whether scripts in these folders find a module, in their folder or installed."""
    paths = (path for folder in folders for path in (f"{folder}/{module}", f"{folder}/{module}.py"))
    return any(map(os.path.exists, paths)) or find_spec(module) is not None
