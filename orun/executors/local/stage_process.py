"""The process of one stage, from its first instruction to its last."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
from io import TextIOWrapper
from typing import cast

from orun.core.serialization import decode, encode
from orun.environment import processes
from orun.executors.job import OPTIONS, Job, JobResult
from orun.executors.local import stage_function
from orun.executors.local.channel import Channel
from orun.executors.local.ending import let_trackers_end
from orun.executors.local.messages import Trouble
from orun.executors.local.reentrancy import mark_process
from orun.executors.tracing import started
from orun.executors.tracing.native import Untraced, listen, make_ready
from orun.executors.tracing.observer import Observer
from orun.executors.tracing.packages import stands_alone
from orun.executors.tracing.scope import Scope, scope_of
from orun.stages.bytecode import distrust, may_be_stale

LONGEST_TMPDIR = 60  # the paths of sockets that libraries make in it must stay below 104 bytes


def prepare() -> None:
    """Make ready what the process of a stage finds as it needs it, in the process that it is forked from."""
    for stream in (sys.stdout, sys.stderr):
        cast("TextIOWrapper", stream).reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    faulthandler.enable()
    import resource  # which Windows lacks

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    make_ready()
    encode(JobResult())
    distrust(lambda _, path: stands_alone(path) and may_be_stale(path))


def serve(job: Job, scope: Scope, channel: Channel, observer: Observer, parent: int) -> None:
    """Do a job in this process, which is to end afterwards, and say what came of it.

    Args:
        job: the job.
        scope: tells the user's files.
        channel: the connection to the supervisor.
        observer: sees what it reads; installed.
        parent: id of the process that this one is to die with.
    """
    processes.die_with(parent, signal.SIGKILL)
    try:
        _enter(job)
    except OSError as error:
        trouble = Trouble("StageFailed", f"{job.stage} could not start", why=str(error))
        channel.send({"stage": job.stage, "trouble": encode(trouble)})
        return
    untraced = ""
    try:
        listener = listen()
    except Untraced as error:
        untraced = str(error)
        channel.send({"stage": job.stage, "started": os.getpid()})
    else:
        channel.send({"stage": job.stage, "started": os.getpid()}, listener)
        os.close(listener)
    said = stage_function.perform(job, scope, channel, observer, untraced)
    let_trackers_end()
    with contextlib.suppress(OSError, ValueError, AttributeError):  # a full disk, or streams that the stage has closed
        sys.stdout.flush()
        sys.stderr.flush()
    processes.flush_native_output()
    channel.send({"stage": job.stage, **said})
    channel.close()


def _enter(job: Job) -> None:
    """Give this process a group, a log, arguments, a working folder and a place for temporary files of its own."""
    sys.argv = ["orun"]  # not those by which its server was started, which differ from run to run
    if os.getpgid(0) != os.getpid():
        os.setpgid(0, 0)
    processes.adopt_orphans()  # a daemon that it starts is found below it, and is nobody else's when it ends
    log = os.open(job.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    mark_process(job.stage, job.key, alone=job.spec.exclusive)
    if job.spec.stage_class != "measurement":  # a model is measured in the memory that it would have elsewhere
        processes.keep_freed_memory()
    os.chdir(job.scratch)
    if len(os.fsencode(job.scratch)) <= LONGEST_TMPDIR:
        os.environ["TMPDIR"] = job.scratch
        if "tempfile" in sys.modules:  # it has found a folder already
            vars(sys.modules["tempfile"])["tempdir"] = None


def spawn(job: Job, scope: Scope, channel: Channel, descriptor: int) -> int:
    """Start a fresh interpreter that does a job; its process id.

    Args:
        job: the job.
        scope: tells the user's files.
        channel: the connection to it.
        descriptor: its end of that.
    """
    os.set_inheritable(descriptor, True)
    arguments = [
        sys.executable,
        *OPTIONS,
        "-m",
        "orun.executors.local.stage_process",
        str(descriptor),
        str(os.getpid()),
    ]
    process = os.posix_spawn(sys.executable, arguments, os.environ, setpgroup=0)
    channel.send({"job": encode(job), "scope": scope.made_of})
    return process


def main() -> None:
    """Be a stage in an interpreter of its own: the arguments are the connection and the id of the supervisor."""
    observer = Observer()
    observer.install()
    started.watch(observer)
    prepare()
    channel = Channel.of(int(sys.argv[1]))
    message = channel.receive()
    job, scope = decode(Job, message["job"]), scope_of(*map(tuple, message["scope"]))
    serve(job, scope, channel, observer, int(sys.argv[2]))
    os._exit(0)


if __name__ == "__main__":
    main()
