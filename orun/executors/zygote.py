"""A fork server: it has imported libraries, uses none of them, and forks a process for each stage that needs them.

The runner starts one that has imported nothing (`python -m orun.executors.zygote DESCRIPTOR`). Asked to `grow`, a
server forks one that imports a module more, with a connection of its own to the runner: a server for `numpy, onnx,
torch` is grown from the one for `numpy, onnx`. So the state of a stage's process follows from the list of its modules
alone, stages with short lists stay light, and no import keeps another stage waiting.

Each server supervises the stages it forked: it enforces their limits, passes on what they say, and answers for the
files they open. When the runner is gone it kills them and ends; the kernel ends them when the server itself is killed.
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
from collections.abc import Callable
from typing import Any

from orun.codec import decode, encode
from orun.executors import stage, system
from orun.executors.channel import Channel
from orun.executors.job import Job
from orun.executors.reads.native import NativeReads
from orun.executors.reads.recorder import Recorder
from orun.executors.reads.scope import Scope
from orun.executors.supervisor import Supervised

FORKS = sys.platform == "linux"  # elsewhere system libraries may not be used after a fork without an exec


class Zygote:
    """The server.

    Args:
        control: the connection to the runner.
        recorder: what its libraries have read while they were imported.
    """

    def __init__(self, control: Channel, recorder: Recorder) -> None:
        self._control = control
        self._recorder = recorder
        self._running: dict[int, Supervised] = {}
        self._servers: set[int] = set()
        self._selector = selectors.DefaultSelector()
        self._ended, self._wake = socket.socketpair()

    def serve(self) -> None:
        """Do what the runner asks until it is gone."""
        system.adopt_orphans()
        self._ended.setblocking(False)
        self._wake.setblocking(False)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends with its connection, after its stages
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._ended, selectors.EVENT_READ, self._reap)
        self._selector.register(self._control, selectors.EVENT_READ, self._obey)
        self._control.post_message({"serving": os.getpid()})
        while not self._control.closed:
            self._selector.modify(self._control, self._interest(), self._obey)
            self._attend()
            for supervised in self._running.values():
                supervised.enforce()
        self._end()

    def _attend(self) -> None:
        """Wait for what happens next, and see to it."""
        for key, _ in self._selector.select(self._patience()):
            if self._selector.get_map().get(key.fd) is key:  # else it went with a stage that was reaped just before
                key.data()

    def _interest(self) -> int:
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._control.unsent else 0)

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

    def _run(self, data: dict[str, Any]) -> None:
        job = decode(Job, data)
        ours, theirs = Channel.pair()
        if FORKS and len(sys._current_frames()) == 1:  # noqa: SLF001 - a thread that runs Python does not outlive a fork
            process = self._fork(lambda parent: stage.run(job, theirs, self._recorder, parent))
        else:
            process = stage.spawn(theirs.fileno())
            ours.send({"run": data})
        with contextlib.suppress(OSError):  # it has done so itself, or has ended
            os.setpgid(process, process)
        theirs.close()
        supervised = self._running[process] = Supervised(job, process, ours)
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._hear(supervised))

    def _grow(self, module: str, descriptor: int) -> None:
        self._servers.add(self._fork(lambda _: become(module, descriptor, self._recorder)))
        os.close(descriptor)

    def _fork(self, task: Callable[[int], None]) -> int:
        """Do the task, which is told this process's id, in a process of its own."""
        parent = os.getpid()
        process = os.fork()
        if process:
            return process
        status = 1
        try:
            self._forget()
            task(parent)
            status = 0
        except BaseException:  # noqa: BLE001 - a forked process must not run on in its parent's frames
            traceback.print_exc()
        finally:
            os._exit(status)

    def _forget(self) -> None:
        """In a new process: let go of all that is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._selector.close()
        for supervised in self._running.values():
            supervised.release()
        self._ended.close()
        self._wake.close()
        self._control.close()

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
        """Hear of what has ended."""
        with contextlib.suppress(BlockingIOError):
            self._ended.recv(4096)
        with contextlib.suppress(ChildProcessError):
            while process := self._reap_one(os.WNOHANG):
                self._servers.discard(process)
        if not self._running:
            self._kill_strays()

    def _reap_one(self, flags: int) -> int:
        process, status, usage = os.wait4(-1, flags)
        if supervised := self._running.pop(process, None):
            self._hear(supervised)
            self._unregister(supervised.channel)
            if supervised.native:
                self._unregister(supervised.native)
            ended = encode(supervised.ended(status, usage))
            self._control.post_message({"stage": supervised.job.stage, "ended": ended})
            supervised.release()
        return process

    def _kill_strays(self) -> None:
        """End what left the group of its stage: it has become a child of this process."""
        for process in system.children(os.getpid()):
            if process not in self._servers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def _end(self) -> None:
        """End with everything below this process."""
        for supervised in self._running.values():
            supervised.kill()
        self._running.clear()
        for server in self._servers:
            os.kill(server, signal.SIGTERM)  # one that imports has no stages, and hears of nothing else
        with contextlib.suppress(ChildProcessError):
            while True:
                self._kill_strays()
                os.wait4(-1, 0)


def become(module: str, descriptor: int, recorder: Recorder) -> None:
    """Be a server that has imported one module more."""
    if FORKS:
        with contextlib.suppress(Exception):  # the stage meets it again, and there it is reported
            if _is_library(module):
                importlib.import_module(module)
        gc.freeze()  # collections in the stages would copy the pages that they share
        sys.stdout.flush()
        system.flush_native_output()
    Zygote(Channel.of(descriptor), recorder).serve()


def _is_library(module: str) -> bool:
    """Whether a module is installed, and not the user's own, which each stage loads anew."""
    spec = importlib.util.find_spec(module.partition(".")[0])
    return spec is not None and spec.origin is not None and not Scope("").is_discovery(spec.origin)


def main() -> None:
    """Be the server that has imported nothing; the argument is the descriptor of its connection to the runner."""
    recorder = Recorder()
    recorder.install()
    Zygote(Channel.of(int(sys.argv[1])), recorder).serve()


if __name__ == "__main__":
    main()
