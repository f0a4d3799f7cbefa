"""A fork server: it has imported libraries, uses none of them, and forks a process for each stage that needs them.

The runner starts one that has imported nothing (`python -m orun.executors.local.zygote DESCRIPTOR`). Asked to `grow`, a
server forks one that imports a module more, with a connection of its own to the runner: a server for `numpy, onnx,
torch` is grown from the one for `numpy, onnx`. So the state of a stage's process follows from the list of its modules
alone, stages with short lists stay light, and no import keeps another stage waiting.

A server is two processes: this one supervises stages, the one below it (`forker.py`) forks them and the servers that
grow. The supervisor enforces limits, passes on what stages say, and answers for the files they open. When the runner is
gone it kills them and ends; the kernel ends them when one of the two is killed.
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
from collections.abc import Mapping
from typing import Any

from orun.core.serialization import decode, encode
from orun.environment import processes
from orun.executors.job import Job, Signature
from orun.executors.local import closing, stage_process
from orun.executors.local.channel import Channel
from orun.executors.local.forker import End, Forker
from orun.executors.local.preload import FORKS
from orun.executors.local.rehearsal import rehearse
from orun.executors.local.supervisor import Supervised
from orun.executors.tracing import started
from orun.executors.tracing.native import NativeReads
from orun.executors.tracing.observer import Observer
from orun.executors.tracing.scope import Scope


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
        self._parsed: dict[str, Signature | None] = {}
        self._scopes: set[Scope] = set()
        self._selector = selectors.DefaultSelector()
        self._ended, self._wake = socket.socketpair()
        self._forker: Forker | None = None
        self._over = False

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
        if FORKS:
            self._observer.recorder.pause()
            gc.freeze()  # collections in the stages would copy the pages that they share
            self._forker = Forker.start(self._observer, self._become, self._forget)
            self._selector.register(self._forker, selectors.EVENT_READ, self._hear_forker)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends with its connection, after its stages
        self._ended.setblocking(False)
        self._wake.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._ended, selectors.EVENT_READ, self._reap)
        self._selector.register(self._control, selectors.EVENT_READ, self._obey)

    def _forget(self) -> None:
        """In the process that forks: let go of all that is the server's."""
        self._selector.close()
        self._ended.close()
        self._wake.close()
        self._control.close()

    def _become(self, module: str, descriptor: int, observer: Observer) -> None:
        become(module, Channel.of(descriptor), observer, forks=self._forks)

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
        if self._forker and scope not in self._scopes:
            self._scopes.add(scope)
            self._forker.look(scope)
        ours, theirs = Channel.pair()
        try:
            process = self._start(theirs.fileno())
        except EOFError:
            self._over = True
            return
        finally:
            theirs.close()
        stage_process.send(ours, encoded, scope)
        supervised = self._running[process] = Supervised(job, scope, process, ours)
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._hear(supervised))

    def _start(self, descriptor: int) -> int:
        """Start the process of a stage, which has that connection; its id."""
        if self._forker and self._forks:
            return self._forker.fork(descriptor)
        process = stage_process.spawn(descriptor)
        with contextlib.suppress(OSError):  # it has done so itself, or has ended
            os.setpgid(process, process)
        return process

    def _grow(self, module: str, descriptor: int) -> None:
        if self._forker:
            self._forker.grow(module, descriptor)
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

    def _hear_forker(self) -> None:
        """Hear of stages that have ended."""
        if self._forker:
            for end in self._forker.ends():
                self._conclude(end)

    def _reap(self) -> None:
        """Hear of this process's own children: those of stages that have left them behind, and some stages."""
        with contextlib.suppress(BlockingIOError):
            self._ended.recv(4096)
        with contextlib.suppress(ChildProcessError):
            while (found := os.wait4(-1, os.WNOHANG))[0]:
                self._conclude(End.of(*found))

    def _conclude(self, end: End) -> None:
        if self._forker and end.process == self._forker.process:
            self._over = True  # the runner hears of it by the end of this process, and of nothing that ends meanwhile
        supervised = None if self._over else self._running.pop(end.process, None)
        self._kill_strays()  # whatever it was that ended: it may have forked before it was killed
        if supervised:
            self._hear(supervised)
            self._unregister(supervised.channel)
            if supervised.native:
                self._unregister(supervised.native)
            ended = encode(supervised.ended(end))
            self._control.post_message({"stage": supervised.job.stage, "ended": ended})
            self._warm(supervised)
            supervised.release()

    def _warm(self, supervised: Supervised) -> None:
        """Have the code parsed that a stage read: others are likely to read it too."""
        if self._forker and supervised.native:
            for path, seen in supervised.native.recorder.reads.items():
                if path.endswith(".py") and self._parsed.get(path) != seen:
                    self._parsed[path] = seen
                    self._forker.parse(path)

    def _kill_strays(self) -> None:
        """End what stages that have ended left behind: it has become a child of this process.

        Its group goes with it, unless what may live on is in it.
        """
        own = {*self._running, *([self._forker.process] if self._forker else ())}
        strays = [process for process in processes.children(os.getpid()) if process not in own]
        if strays:
            alive = {os.getpid(), *own}.union(*map(processes.descendants, own))
            spared = {processes.group(process) for process in alive}
            for process in strays:
                processes.kill(process, spared)

    def _end(self) -> None:
        """End with everything below this process."""
        for supervised in self._running.values():
            supervised.kill()
        self._running.clear()
        if self._forker:
            self._forker.close()
        with contextlib.suppress(ChildProcessError):
            while True:
                self._kill_strays()
                os.wait4(-1, 0)


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
    closing.watch()
    if FORKS:
        rehearse(observer)
    Zygote(Channel.of(int(sys.argv[1])), observer, forks=FORKS).serve()


if __name__ == "__main__":
    main()
