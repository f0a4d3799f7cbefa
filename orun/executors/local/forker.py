"""The half of a fork server that forks, and does next to nothing else.

A page that parent or child writes to after a fork is copied, which costs more than most of what a stage does: hundreds
of them where the parent also supervises. So each server has a process that supervises (`zygote.py`), and this one below
it, whose few instructions touch few pages.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import traceback
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from resource import struct_rusage
from typing import NoReturn

from orun.core.serialization import Record, from_json, to_json
from orun.environment import processes
from orun.executors.local import stage_process
from orun.executors.local.channel import Channel
from orun.executors.local.warm import look_beforehand, parse_beforehand
from orun.executors.tracing.observer import Observer
from orun.executors.tracing.scope import Scope

FORK, GROW, LOOK, PARSE = b"fork", b"grow", b"look", b"parse"
LONGEST = 1 << 16  # bytes of a request
ROOM = socket.CMSG_LEN(array("i").itemsize)  # for one descriptor
FORKED, ENDED = struct.Struct("=i"), struct.Struct("=iidq")  # process; and its status, CPU seconds, peak of memory

Become = Callable[[str, int, Observer], None]
"""become(module, descriptor, observer) is a server that has imported one module more."""


class End(Record, frozen=True):
    """A process that has ended, and been waited for: its status as `wait` gives it, what it took, its peak."""

    process: int
    status: int
    cpu_seconds: float
    peak_memory: int  # in the unit of `ru_maxrss`

    @classmethod
    def of(cls, process: int, status: int, usage: struct_rusage) -> End:
        """What `wait4` found."""
        return cls(process, status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)


@dataclass
class Forker:
    """The process that forks, seen from the server.

    Attributes:
        process: its id.
    """

    process: int
    _connection: socket.socket
    _ends: deque[End] = field(default_factory=deque)

    @classmethod
    def start(cls, observer: Observer, become: Become, forget: Callable[[], None]) -> Forker:
        """Fork it; `forget` lets go of what is the server's, in the new process."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()

        def serve() -> None:
            processes.die_with(parent)
            ours.close()
            forget()
            _Forking(theirs, observer, become).serve()

        process = os.fork() or _only(serve)
        theirs.close()
        return cls(process, ours)

    def fileno(self) -> int:
        """The descriptor that tells of ends, for a selector."""
        return self._connection.fileno()

    def fork(self, descriptor: int) -> int:
        """The id of a new process for a stage, which has that descriptor as its connection.

        Raises:
            EOFError: when the process that forks is gone.
        """
        self._ask(FORK, descriptor)
        while len(answer := self._receive()) == ENDED.size:
            self._ends.append(End(*ENDED.unpack(answer)))
        if not answer:
            raise EOFError("the process that forks is gone")
        process: int = FORKED.unpack(answer)[0]
        return process

    def grow(self, module: str, descriptor: int) -> None:
        """Have a server made that imports one module more, with that descriptor as its connection."""
        self._ask(GROW + module.encode(), descriptor)

    def look(self, scope: Scope) -> None:
        """Have it found out what is in a scope, so that the stages that have it find that done."""
        self._ask(LOOK + to_json(scope.made_of))

    def parse(self, path: str) -> None:
        """Have a Python file parsed, likewise."""
        self._ask(PARSE + os.fsencode(path))

    def ends(self) -> list[End]:
        """The processes that have ended since the last call; does not wait."""
        with contextlib.suppress(BlockingIOError):
            while answer := self._receive(socket.MSG_DONTWAIT):
                self._ends.append(End(*ENDED.unpack(answer)))
        found = list(self._ends)
        self._ends.clear()
        return found

    def close(self) -> None:
        """Let go of the connection, upon which it ends after all that it has forked."""
        self._connection.close()

    def _receive(self, flags: int = 0) -> bytes:
        """What it says next; nothing when it is gone."""
        try:
            return self._connection.recv(ENDED.size, flags)
        except ConnectionError:  # killed before it had read what it was asked
            return b""

    def _ask(self, request: bytes, *descriptors: int) -> None:
        with contextlib.suppress(ConnectionError):  # it is gone, which its server hears of
            socket.send_fds(self._connection, [request], descriptors)


class _Forking:
    """The process itself."""

    def __init__(self, connection: socket.socket, observer: Observer, become: Become) -> None:
        self._connection = connection
        self._observer = observer
        self._become = become
        self._process = os.getpid()
        self._poll = select.poll()
        self._living: dict[int, int] = {}  # descriptor of a process -> its id
        self._servers: set[int] = set()

    def serve(self) -> None:
        """Do what the server asks until it is gone."""
        connection = self._connection.fileno()
        self._poll.register(connection, select.POLLIN)
        served = True
        while served:
            for descriptor, _ in self._poll.poll():
                if descriptor == connection:
                    served = self._obey()
                else:
                    self._reap(descriptor)
        self._end()

    def _obey(self) -> bool:
        request, extras, _, _ = self._connection.recvmsg(LONGEST, ROOM, socket.MSG_CMSG_CLOEXEC)
        descriptor = int.from_bytes(extras[0][2], "little") if extras else -1
        if request == FORK:
            process = self._fork(lambda: stage_process.serve(Channel.of(descriptor), self._observer, self._process))
            with contextlib.suppress(OSError):  # it has done so itself, or has ended
                os.setpgid(process, process)
            self._connection.send(FORKED.pack(process))
        elif request.startswith(GROW):
            module = request.removeprefix(GROW).decode()
            self._servers.add(self._fork(lambda: self._become(module, descriptor, self._observer)))
        elif request.startswith(LOOK):
            look_beforehand(*map(tuple, from_json(request.removeprefix(LOOK))))
        elif request:
            parse_beforehand(os.fsdecode(request.removeprefix(PARSE)))
        if descriptor >= 0:
            os.close(descriptor)
        return bool(request)

    def _fork(self, task: Callable[[], None]) -> int:
        """Do the task in a process of its own."""
        process = os.fork()
        if not process:
            os.close(self._connection.fileno())
            for descriptor in self._living:
                os.close(descriptor)
            _only(task)
        descriptor = os.pidfd_open(process)
        self._living[descriptor] = process
        self._poll.register(descriptor, select.POLLIN)
        return process

    def _reap(self, descriptor: int) -> None:
        """Tell of a process that has ended."""
        process = self._living.pop(descriptor)
        self._poll.unregister(descriptor)
        os.close(descriptor)
        _, status, usage = os.wait4(process, 0)
        self._servers.discard(process)
        with contextlib.suppress(ConnectionError):  # the server is gone, and this process is about to be
            self._connection.send(ENDED.pack(process, status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss))

    def _end(self) -> None:
        """End after all that was forked here: stages have been killed, and servers have lost their connections."""
        for server in self._servers:
            os.kill(server, signal.SIGTERM)  # one that still imports hears of nothing else
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait4(-1, 0)


def _only(task: Callable[[], None]) -> NoReturn:
    """Do a task and end: a forked process must not run on in its parent's frames."""
    status = 1
    try:
        task()
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it was, nobody above would make anything of it
        traceback.print_exc()
    finally:
        os._exit(status)
