"""Self-test of native tracing: whether this machine reports which files native code opens, tried with one file."""

from __future__ import annotations

import os
import subprocess
import sys

from orun.executors.job import OPTIONS
from orun.executors.local.channel import Channel
from orun.executors.tracing.native import NativeReads
from orun.executors.tracing.scope import build_scope
from orun.executors.tracing.seccomp import Untraced, explain_unavailability, listen


def explain_partial_tracing() -> str:
    """Return why stages would be traced in part on this machine; "" if they would be traced in full."""
    if why := explain_unavailability():
        return why
    # In a process of its own: a process that reports its opens does so until it ends.
    command = [sys.executable, *OPTIONS, "-m", "orun.executors.tracing.availability"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else f"it cannot be tried: {done.stderr.strip()[-200:]}"


def _try() -> str:
    ours, theirs = Channel.open_pair()
    child = os.fork()
    if not child:
        _open_file(theirs)
    why = str(ours.receive()["untraced"])
    if not why:
        reads = NativeReads(ours.descriptors.popleft(), build_scope(), child)
        reads.reply(reads.receive())
        why = reads.untraced
    os.waitpid(child, 0)
    return why


def _open_file(channel: Channel) -> None:
    """Report that this process opens a file, and exit."""
    try:
        listener = listen()
    except Untraced as error:
        channel.send({"untraced": str(error)})
    else:
        channel.send({"untraced": ""}, listener)
        os.close(os.open(os.devnull, os.O_RDONLY))
    os._exit(0)


if __name__ == "__main__":
    sys.stdout.write(_try())
