"""Process of one stage, from its first instruction to its last."""

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
from orun.environment.bytecode import distrust, may_be_stale
from orun.executors.job import OPTIONS, Job, JobResult
from orun.executors.local import stage_function
from orun.executors.local.channel import Channel
from orun.executors.local.compat import stop_resource_trackers
from orun.executors.local.ending import PATIENCE
from orun.executors.local.messages import Trouble
from orun.executors.local.reentrancy import mark_process
from orun.executors.tracing import spawned_workers
from orun.executors.tracing.observer import Observer
from orun.executors.tracing.packages import stands_alone
from orun.executors.tracing.scope import Scope, build_scope
from orun.executors.tracing.seccomp import Untraced, listen, make_ready

LONGEST_TMPDIR = 60  # bytes: paths of sockets in it must stay below 104


def prepare() -> None:
    """Prepare in the server what the process of every stage needs."""
    for stream in (sys.stdout, sys.stderr):
        cast("TextIOWrapper", stream).reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    faulthandler.enable()
    import resource  # which Windows lacks

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    make_ready()
    encode(JobResult())
    distrust(lambda _, path: stands_alone(path) and may_be_stale(path))


def serve(job: Job, scope: Scope, channel: Channel, observer: Observer, parent: int) -> None:
    """Do a job in this process and report the result; the process must end afterwards.

    `parent` is the process whose death ends this one.
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
    report = stage_function.perform(job, scope, channel, observer, untraced)
    stop_resource_trackers(PATIENCE)
    with contextlib.suppress(OSError, ValueError, AttributeError):  # a full disk, or streams that the stage closed
        sys.stdout.flush()
        sys.stderr.flush()
    processes.flush_native_output()
    channel.send({"stage": job.stage, **report})
    channel.close()


def _enter(job: Job) -> None:
    """Give this process its own group, log, arguments, working folder and folder for temporary files."""
    sys.argv = ["orun"]  # those of its server differ from run to run
    if os.getpgid(0) != os.getpid():
        os.setpgid(0, 0)
    processes.adopt_orphans()  # a daemon that it starts stays below it, and is ended with it
    log = os.open(job.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    mark_process(job.stage, job.key, alone=job.spec.exclusive)
    if job.spec.stage_class != "measurement":  # a model is measured with the allocator's defaults
        processes.keep_freed_memory()
    os.chdir(job.work)
    if len(os.fsencode(job.work)) <= LONGEST_TMPDIR:
        os.environ["TMPDIR"] = job.work
        if "tempfile" in sys.modules:  # which may have chosen a folder already
            vars(sys.modules["tempfile"])["tempdir"] = None


def spawn(job: Job, scope: Scope, channel: Channel, descriptor: int) -> int:
    """Start an interpreter that does a job; return its process id.

    `descriptor` is the process's end of the connection.
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
    channel.send({"job": encode(job), "scope": scope.arguments})
    return process


def main() -> None:
    """Be a stage in its own interpreter; the arguments are the connection and the id of the supervisor."""
    observer = Observer()
    observer.install()
    spawned_workers.watch(observer)
    prepare()
    channel = Channel.of(int(sys.argv[1]))
    message = channel.receive()
    job, scope = decode(Job, message["job"]), build_scope(*map(tuple, message["scope"]))
    serve(job, scope, channel, observer, int(sys.argv[2]))
    os._exit(0)


if __name__ == "__main__":
    main()
