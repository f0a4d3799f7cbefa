"""A fork server: it has imported libraries, uses none of them, and forks a process for each stage that needs them.

The runner starts one that has imported nothing (`python -m orun.executors.local.zygote DESCRIPTOR`). Asked to `grow`, a
server forks one that imports a module more, with a connection of its own to the runner: a server for `numpy, onnx,
torch` is grown from the one for `numpy, onnx`. So the state of a stage's process follows from the list of its modules
alone, stages with short lists stay light, and no import keeps another stage waiting.

The server supervises the stages that it has forked: it enforces limits, passes on what they say, answers for the files
that they open, and ends what they leave behind before it waits for them. When the runner is gone, or the process that
it was forked from, it kills them and ends. The first server is watched by a process that only waits (`_guard`), and
every other one by the server that it was grown from: what a server leaves when it is killed ends there.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from orun.core.serialization import decode, encode
from orun.environment import processes
from orun.executors.job import Job, Signature
from orun.executors.local import stage_process
from orun.executors.local.channel import Channel
from orun.executors.local.messages import Ended, Trouble
from orun.executors.local.preload import FORKS
from orun.executors.local.supervisor import Supervised
from orun.executors.local.warm import compile_for_forks
from orun.executors.tracing import started
from orun.executors.tracing.native import NativeReads
from orun.executors.tracing.observer import Observer
from orun.executors.tracing.scope import Scope

if TYPE_CHECKING:
    from resource import struct_rusage


class Zygote:
    """The server.

    Args:
        control: the connection to the runner.
        observer: what its libraries have read while they were imported.
        forks: whether stages may be forked from it.
    """

    def __init__(self, control: Channel, observer: Observer, *, forks: bool) -> None:
        self._control = control
        self._observer = observer
        self._forks = forks
        self._running: dict[int, Supervised] = {}
        self._servers: dict[int, int] = {}  # grown from this one -> its connection to the runner, as long as it lives
        self._compiled: dict[str, Signature | None] = {}
        self._selector = selectors.DefaultSelector()
        self._ended, self._wake = socket.socketpair()
        self._over = False
        self._parent = os.getppid()

    def serve(self) -> None:
        """Do what the runner asks until it is gone."""
        self._begin()
        self._control.post_message({"serving": os.getpid()})
        while not (self._over or self._control.closed):
            self._watch_for_room()
            self._attend()
            for supervised in self._running.values():
                supervised.enforce()
        self._end()

    def _begin(self) -> None:
        processes.adopt_orphans()
        self._observer.recorder.pause()
        gc.freeze()  # collections in the stages would copy the pages that they share
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGCHLD, _nothing)
        self._ended.setblocking(False)
        self._wake.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._ended, selectors.EVENT_READ, self._reap)
        self._selector.register(self._control, selectors.EVENT_READ, self._obey)
        if FORKS:
            processes.die_with(self._parent, signal.SIGTERM)

    def _stop(self, _number: int, _frame: object) -> None:
        """End soon, after the stages and servers below: it was asked to, or its parent has ended."""
        self._over = True

    def _attend(self) -> None:
        """Wait for what happens next, and see to it."""
        for key, _ in self._selector.select(self._patience()):
            if self._selector.get_map().get(key.fd) is key:  # else it went with a stage that was reaped just before
                key.data()

    def _watch_for_room(self) -> None:
        """Hear of it when the runner has read what could not be sent to it at once."""
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._control.unsent else 0)
        if self._selector.get_key(self._control).events != wanted:
            self._selector.modify(self._control, wanted, self._obey)

    def _patience(self) -> float | None:
        seconds = min((supervised.patience() for supervised in self._running.values()), default=float("inf"))
        return None if seconds == float("inf") else seconds

    def _obey(self) -> None:
        self._control.flush()
        for message in self._control.messages():
            if "run" in message:
                self._run(message["run"])
            elif "grow" in message:
                self._grow(message["grow"], self._control.descriptors.popleft())
            elif "cancel" in message:
                for supervised in self._running.values():
                    if supervised.job.stage == message["cancel"]:
                        supervised.stop("cancelled")

    def _run(self, encoded: Mapping[str, Any]) -> None:
        job = decode(Job, encoded)
        scope = Scope.of(job)
        ours, theirs = Channel.pair()
        try:
            process = self._start(job, scope, ours, theirs.fileno())
        except OSError as error:  # this machine lets no more processes be made
            ours.close()
            self._refuse(job, str(error))
            return
        finally:
            theirs.close()
        supervised = self._running[process] = Supervised(job, scope, process, ours)
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._hear(supervised))

    def _refuse(self, job: Job, why: str) -> None:
        """Tell the runner that a stage could not be started."""
        trouble = Trouble("StageFailed", f"{job.stage} could not start", why=why)
        self._control.post_message({"stage": job.stage, "trouble": encode(trouble)})
        self._control.post_message({"stage": job.stage, "ended": encode(Ended(0, 0.0, 0.0, 0))})

    def _start(self, job: Job, scope: Scope, channel: Channel, descriptor: int) -> int:
        """Start the process of a stage; its id.

        Args:
            job: the job.
            scope: tells the user's files.
            channel: the connection to it.
            descriptor: its end of that.
        """
        if not self._forks:
            return stage_process.spawn(job, scope, channel, descriptor)
        self._observer.prepare(scope)
        server = os.getpid()

        def serve() -> None:
            channel.close()
            stage_process.serve(job, scope, Channel.of(descriptor), self._observer, server)

        process = self._fork(serve)
        with contextlib.suppress(OSError):  # it has done so itself, or has ended
            os.setpgid(process, process)
        return process

    def _grow(self, module: str, descriptor: int) -> None:
        """Fork a server that imports one module more."""
        try:
            process = self._fork(lambda: become(module, Channel.of(descriptor), self._observer, forks=self._forks))
        except OSError:  # the runner hears of its end, and asks this one to run the stages
            os.close(descriptor)
        else:
            self._servers[process] = descriptor

    def _fork(self, task: Callable[[], None]) -> int:
        """Do a task in a process of its own; its id."""
        process = os.fork()
        if not process:
            self._leave()
            _only(task)
        return process

    def _leave(self) -> None:
        """Let go of all that is the server's, in a process that it has forked."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        for closed in (self._selector, self._ended, self._wake, self._control):
            closed.close()
        for supervised in self._running.values():
            supervised.release()
        for descriptor in self._servers.values():
            os.close(descriptor)

    def _hear(self, supervised: Supervised) -> None:
        """Pass on what a stage says."""
        for line in supervised.channel.lines():
            self._control.post(line)
        if supervised.channel.closed:
            self._unregister(supervised.channel)
        elif native := supervised.watch_native_reads():
            self._selector.register(native, selectors.EVENT_READ, lambda: self._answer(native))

    def _answer(self, native: NativeReads) -> None:
        """Let a stage open files."""
        if not native.answer():
            self._unregister(native)

    def _unregister(self, source: Any) -> None:
        if source in self._selector.get_map():
            self._selector.unregister(source)

    def _reap(self) -> None:
        """See to the children that have ended."""
        with contextlib.suppress(BlockingIOError):
            self._ended.recv(4096)
        with contextlib.suppress(ChildProcessError):
            while found := processes.wait_for_child(self._end_remains, block=False):
                self._conclude(*found)

    def _end_remains(self, process: int) -> None:
        """End what a child that has ended left behind: processes of its group, and others that have been adopted."""
        if supervised := self._running.get(process):
            supervised.kill()
        processes.end_strays((self._running.keys() | self._servers.keys()) - {process})

    def _conclude(self, process: int, status: int, usage: struct_rusage) -> None:
        """Tell the runner of the end of a child."""
        if process in self._servers:
            os.close(self._servers.pop(process))
        if supervised := self._running.pop(process, None):
            self._hear(supervised)
            self._unregister(supervised.channel)
            if supervised.native:
                self._unregister(supervised.native)
            ended = encode(supervised.ended(status, usage))
            self._control.post_message({"stage": supervised.job.stage, "ended": ended})
            self._compile(supervised)
            supervised.release()

    def _compile(self, supervised: Supervised) -> None:
        """Compile the code that a stage has read: others are likely to read it too."""
        if self._forks and supervised.native:
            for path, seen in supervised.native.recorder.reads.items():
                if path.endswith(".py") and self._compiled.get(path) != seen:
                    self._compiled[path] = seen
                    compile_for_forks(path)

    def _end(self) -> None:
        """End with everything below this process."""
        for supervised in self._running.values():
            supervised.kill()
        for server in self._servers:
            os.kill(server, signal.SIGTERM)
        with contextlib.suppress(ChildProcessError):
            while found := processes.wait_for_child(self._end_remains, block=True):
                self._servers.pop(found[0], None)
                self._running.pop(found[0], None)


def _nothing(_number: int, _frame: object) -> None:
    """Take no notice of a signal; unlike with SIG_IGN, programs that are started do."""


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


def become(module: str, control: Channel, observer: Observer, *, forks: bool) -> None:
    """Be a server that has imported one module more."""
    observer.recorder.resume()
    gc.disable()  # an import makes next to no cycles, and would be walked over and over: up to a quarter of its time
    with contextlib.suppress(Exception):  # the stage meets it again, and there it is reported
        if _is_library(module):
            importlib.import_module(module)
    gc.enable()
    sys.stdout.flush()
    processes.flush_native_output()
    alone = len(sys._current_frames()) == 1  # noqa: SLF001 - a thread that runs Python does not outlive a fork
    Zygote(control, observer, forks=forks and alone).serve()


def _is_library(module: str) -> bool:
    """Whether a module is installed, and not the user's own, which each stage loads anew."""
    spec = importlib.util.find_spec(module.partition(".")[0])
    return spec is not None and spec.origin is not None and not Scope().is_discovery(spec.origin)


def main() -> None:
    """Be the server that has imported nothing; the argument is the descriptor of its connection to the runner."""
    observer = Observer()
    observer.install()
    started.watch(observer)
    stage_process.prepare()
    descriptor = int(sys.argv[1])
    if FORKS:
        _guard()
    Zygote(Channel.of(descriptor), observer, forks=FORKS).serve()


def _guard() -> None:
    """Go on in a forked process; this one waits for it, and ends what it has left when it was killed.

    It keeps the connection to the runner open, which so hears of the end when all is gone.
    """
    signal.signal(signal.SIGTERM, _nothing)
    processes.adopt_orphans()
    server = os.fork()
    if not server:
        return
    own = {server}

    def end_remains(process: int) -> None:
        own.discard(process)
        processes.end_strays(own)

    with contextlib.suppress(ChildProcessError):
        while True:
            processes.wait_for_child(end_remains, block=True)
    os._exit(0)


if __name__ == "__main__":
    main()
