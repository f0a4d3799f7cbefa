"""Fork server: imports libraries, uses none of them, and forks a process for each stage that needs them.

The runner starts a server that has imported nothing (`python -m orun.executors.local.zygote DESCRIPTOR`). To `grow`, a
server forks another one that imports one module more, with its own connection to the runner: the server for `numpy,
onnx, torch` is grown from that for `numpy, onnx`. So the state of a stage's process depends only on the list of its
modules, stages with short lists stay light, and no import delays another stage.

A server supervises the stages that it has forked. It enforces limits, forwards messages, answers the tracer, and ends
what a stage leaves behind. It kills its stages and ends when the runner or its parent is gone. The first server is
watched by a guard (`guard.py`), every other one by its parent, which end what a killed server leaves.
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
from typing import TYPE_CHECKING, Any, NoReturn

from orun.core.serialization import decode, encode
from orun.environment import processes
from orun.executors.job import Job
from orun.executors.local import stage_process
from orun.executors.local.channel import Channel
from orun.executors.local.guard import fork_guarded, ignore_signal
from orun.executors.local.messages import Ended, Trouble
from orun.executors.local.preload import FORKS
from orun.executors.local.supervisor import Supervised
from orun.executors.tracing import spawned_workers
from orun.executors.tracing.native import NativeReads
from orun.executors.tracing.observer import Observer
from orun.executors.tracing.scope import Scope

if TYPE_CHECKING:
    from resource import struct_rusage


class Zygote:
    """The server.

    Args:
        control: connection to the runner.
        observer: what libraries have read while they were imported.
        forks: whether stages may be forked from it.
        fork: forks this process; `os.fork` when left out.
    """

    def __init__(
        self, control: Channel, observer: Observer, *, forks: bool, fork: Callable[[], int] | None = None
    ) -> None:
        self._control = control
        self._observer = observer
        self._forks = forks
        self._fork = fork or os.fork
        self._running: dict[int, Supervised] = {}
        self._servers: dict[int, int] = {}  # each living server grown from this one -> its connection
        self._selector = selectors.DefaultSelector()
        self._child_ended, self._wake = socket.socketpair()
        self._stopping = False
        self._parent = os.getppid()

    def serve(self) -> None:
        """Serve the runner until it is gone."""
        self._set_up()
        self._control.post_message({"serving": os.getpid()})
        while not (self._stopping or self._control.closed):
            self._watch_control()
            self.handle_next()
            for supervised in self._running.values():
                supervised.enforce()
        self._end()

    def _set_up(self) -> None:
        processes.adopt_orphans()
        self._observer.recorder.pause()
        gc.freeze()  # otherwise collections in the stages would copy shared pages
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGCHLD, ignore_signal)
        self._child_ended.setblocking(False)
        self._wake.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        self.watch(self._child_ended, self._reap)
        self.watch(self._control, self._handle_control)
        if FORKS:
            processes.die_with(self._parent, signal.SIGTERM)

    def _stop(self, _number: int, _frame: object) -> None:
        """Stop after SIGTERM, which also comes when the parent has ended."""
        self._stopping = True

    def handle_next(self) -> None:
        """Wait for the next events, and handle them."""
        seconds = min((supervised.compute_patience() for supervised in self._running.values()), default=float("inf"))
        for key, _ in self._selector.select(None if seconds == float("inf") else seconds):
            if self._selector.get_map().get(key.fd) is key:  # otherwise it went with a stage that was just reaped
                key.data()

    def _watch_control(self) -> None:
        """Select for writing too while a message to the runner is not sent completely."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._control.unsent else 0)
        if self._selector.get_key(self._control).events != events:
            self._selector.modify(self._control, events, self._handle_control)

    def _handle_control(self) -> None:
        self._control.flush()
        for message in self._control.receive_messages():
            if "run" in message:
                self.run(decode(Job, message["run"]))
            elif "grow" in message:
                self._grow(message["grow"], self._control.descriptors.popleft())
            elif "cancel" in message:
                for supervised in self._running.values():
                    if supervised.job.stage == message["cancel"]:
                        supervised.stop("cancelled")

    def run(self, job: Job) -> None:
        """Start the process of a stage and supervise it."""
        scope = Scope.of(job)
        ours, theirs = Channel.open_pair()
        try:
            process = self._start(job, scope, ours, theirs.fileno())
        except OSError as error:  # too many processes
            ours.close()
            trouble = Trouble("StageFailed", f"{job.stage} could not start", why=str(error))
            self._control.post_message({"stage": job.stage, "trouble": encode(trouble)})
            self._control.post_message({"stage": job.stage, "ended": encode(Ended(0, 0.0, 0.0, 0))})
            return
        finally:
            theirs.close()
        supervised = self._running[process] = Supervised(job, scope, process, ours)
        self.watch(ours, lambda: self._forward(supervised))

    def _start(self, job: Job, scope: Scope, channel: Channel, descriptor: int) -> int:
        """Start the process of a stage; return its id."""
        if not self._forks:
            return stage_process.spawn(job, scope, channel, descriptor)
        self._observer.prepare(scope)
        server = os.getpid()

        def serve() -> None:
            channel.close()
            stage_process.serve(job, scope, Channel.of(descriptor), self._observer, server)

        process = self._fork_task(serve)
        with contextlib.suppress(OSError):  # it has done so already, or has ended
            os.setpgid(process, process)
        return process

    def _grow(self, module: str, descriptor: int) -> None:
        """Fork a server that imports one module more."""
        try:
            process = self._fork_task(lambda: become(module, Channel.of(descriptor), self._observer, forks=self._forks))
        except OSError:  # the runner notices that it is gone, and lets this server run the stages
            os.close(descriptor)
        else:
            self._servers[process] = descriptor

    def _fork_task(self, task: Callable[[], None]) -> int:
        """Run a task in a forked process; return its id. Until it has closed what is the server's, SIGTERM waits."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            process = self._fork()
            if not process:
                self.close()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        if not process:
            _run_and_exit(task)
        return process

    def close(self) -> None:
        """Close everything of the server's, in a forked process."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        for resource in (self._selector, self._child_ended, self._wake, self._control):
            resource.close()
        for supervised in self._running.values():
            supervised.release()
        for descriptor in self._servers.values():
            os.close(descriptor)

    def _forward(self, supervised: Supervised) -> None:
        """Forward messages of a stage to the runner; start tracing once the stage has sent its listener."""
        for line in supervised.channel.receive_lines():
            self._control.post(line)
        if supervised.channel.closed:
            self.unwatch(supervised.channel)
        elif native := supervised.watch_native_reads():
            self.watch(native, lambda: self._answer(native))

    def _answer(self, native: NativeReads) -> None:
        """Answer the tracer's reports of a stage."""
        if not native.answer():
            self.unwatch(native)

    def watch(self, source: Any, handler: Callable[[], None]) -> None:
        """Call a handler when a source with a descriptor has something to read."""
        self._selector.register(source, selectors.EVENT_READ, handler)

    def unwatch(self, source: Any) -> None:
        """Watch a source no longer, if it is watched."""
        if source in self._selector.get_map():
            self._selector.unregister(source)

    def _reap(self) -> None:
        """Handle the end of child processes."""
        with contextlib.suppress(BlockingIOError):
            self._child_ended.recv(4096)
        with contextlib.suppress(ChildProcessError):
            while ended := processes.wait_for_child(self._end_remains, block=False):
                self._conclude(*ended)

    def _end_remains(self, process: int) -> None:
        """End what a child left behind: processes of its group, and orphans that were adopted."""
        if supervised := self._running.get(process):
            supervised.kill()
        processes.end_orphans((self._running.keys() | self._servers.keys()) - {process})

    def _conclude(self, process: int, status: int, usage: struct_rusage) -> None:
        """Report the end of a child to the runner."""
        if process in self._servers:
            os.close(self._servers.pop(process))
        if supervised := self._running.pop(process, None):
            self._forward(supervised)
            self.unwatch(supervised.channel)
            if supervised.native:
                self.unwatch(supervised.native)
            ended = encode(supervised.report_end(status, usage))
            self._control.post_message({"stage": supervised.job.stage, "ended": ended})
            supervised.release()

    def _end(self) -> None:
        """End everything below this process."""
        for supervised in self._running.values():
            supervised.kill()
        for server in self._servers:
            os.kill(server, signal.SIGTERM)
        with contextlib.suppress(ChildProcessError):
            while ended := processes.wait_for_child(self._end_remains, block=True):
                self._servers.pop(ended[0], None)
                self._running.pop(ended[0], None)


def _run_and_exit(task: Callable[[], None]) -> NoReturn:
    """Run a task and exit: a forked process must not continue in its parent's frames."""
    status = 1
    try:
        task()
        status = 0
    except BaseException:  # noqa: BLE001 - nothing above may handle it
        traceback.print_exc()
    finally:
        os._exit(status)


def become(module: str, control: Channel, observer: Observer, *, forks: bool) -> None:
    """Import one module more, and be its server."""
    observer.recorder.resume()
    gc.disable()  # an import creates few cycles, and collections take up to a quarter of its time
    with contextlib.suppress(Exception):  # the stage fails in the same way, and reports it
        if _is_library(module):
            importlib.import_module(module)
    gc.enable()
    sys.stdout.flush()
    processes.flush_native_output()
    single_threaded = len(sys._current_frames()) == 1  # noqa: SLF001 - documented; threads do not survive a fork
    Zygote(control, observer, forks=forks and single_threaded).serve()


def _is_library(module: str) -> bool:
    """Return whether a module is installed; the user's own are loaded by each stage anew."""
    spec = importlib.util.find_spec(module.partition(".")[0])
    return spec is not None and spec.origin is not None and not Scope().is_dependency(spec.origin)


def main() -> None:
    """Be the first server; the argument is the descriptor of the connection to the runner."""
    observer = Observer()
    observer.install()
    spawned_workers.watch(observer)
    stage_process.prepare()
    descriptor = int(sys.argv[1])
    if FORKS:
        fork_guarded()
    Zygote(Channel.of(descriptor), observer, forks=FORKS).serve()


if __name__ == "__main__":
    main()
