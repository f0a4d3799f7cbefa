"""The process of one stage, from its first instruction to its last."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import sys
import tempfile
from io import TextIOWrapper
from typing import cast

from orun.codec import decode, encode
from orun.executors import system, worker
from orun.executors.channel import Channel
from orun.executors.job import Job
from orun.executors.messages import Trouble
from orun.executors.reads.native import listen
from orun.executors.reads.recorder import Recorder

LONGEST_TMPDIR = 60  # the paths of sockets that libraries make in it must stay below 104 bytes


def run(job: Job, channel: Channel, recorder: Recorder, parent: int) -> None:
    """Do the job in this process, which is to end afterwards, and say over the channel what came of it.

    Args:
        job: the job.
        channel: the connection to the supervisor.
        recorder: notes what Python opens.
        parent: id of the supervisor's process.
    """
    system.die_with(parent)
    try:
        _enter(job)
    except OSError as error:
        trouble = Trouble("StageFailed", f"{job.stage} could not start", why=str(error))
        channel.send({"stage": job.stage, "trouble": encode(trouble)})
        return
    listener = listen()
    channel.send({"stage": job.stage, "started": os.getpid()}, *([] if listener is None else [listener]))
    if listener is not None:
        os.close(listener)
    said = worker.perform(job, channel, recorder)
    with contextlib.suppress(OSError, ValueError):  # a full disk, or streams that the stage has closed: only its log
        sys.stdout.flush()
        sys.stderr.flush()
    system.flush_native_output()
    channel.send({"stage": job.stage, **said})


def _enter(job: Job) -> None:
    """Give this process a group, a log, an empty input, a working folder and a place for temporary files of its own."""
    if os.getpgid(0) != os.getpid():
        os.setpgid(0, 0)
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(job.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(null)
    os.close(log)
    for stream in (sys.stdout, sys.stderr):
        cast("TextIOWrapper", stream).reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if job.spec.stage_class != "measurement":  # a model is measured in the memory that it would have elsewhere
        system.keep_freed_memory()
    os.chdir(job.scratch)
    if len(os.fsencode(job.scratch)) <= LONGEST_TMPDIR:
        os.environ["TMPDIR"] = job.scratch
        tempfile.tempdir = None


def spawn(descriptor: int) -> int:
    """Start a fresh interpreter that does the job it will be sent; its process id.

    Args:
        descriptor: its end of the connection to this process.
    """
    os.set_inheritable(descriptor, True)
    arguments = [sys.executable, "-P", "-m", "orun.executors.stage", str(descriptor), str(os.getpid())]
    return os.posix_spawn(sys.executable, arguments, os.environ, setpgroup=0)


def main() -> None:
    """Be a stage in an interpreter of its own: the arguments are the connection and the id of the supervisor."""
    channel = Channel.of(int(sys.argv[1]))
    recorder = Recorder()
    recorder.install()
    message = channel.receive()
    run(decode(Job, message["run"]), channel, recorder, int(sys.argv[2]))
    os._exit(0)


if __name__ == "__main__":
    main()
