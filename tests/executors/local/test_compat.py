"""Each work-around for the standard library is still needed: a failure here says that it may go."""

from __future__ import annotations

import atexit
import signal
import socket
import subprocess
import sys
import threading

import pytest

from orun.executors.local.compat import receive_descriptors


def test_recv_fds_loses_its_flags() -> None:
    """As in CPython 3.11 to 3.13, at least in their first releases."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"a")
        socket.recv_fds(ours, 1, 1, socket.MSG_PEEK)
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            ours.recv(1)


def test_receive_descriptors_heeds_flags() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(theirs, [b"a"], [theirs.fileno(), theirs.fileno()])
        data, descriptors = receive_descriptors(ours, 10, 8, 0)
        assert (data, len(descriptors)) == (b"a", 2)
        for descriptor in descriptors:
            socket.close(descriptor)
        with pytest.raises(BlockingIOError):
            receive_descriptors(ours, 10, 8, socket.MSG_DONTWAIT)


def test_there_is_no_public_call() -> None:
    """Of the functions that `run_exit_functions` and `join_threads` call."""
    assert not [name for name in dir(atexit) if "run" in name and not name.startswith("_")]
    assert not [name for name in dir(threading) if "shutdown" in name and not name.startswith("_")]


HELD = """
import os, signal
from multiprocessing.resource_tracker import _resource_tracker, ensure_running
ensure_running()
worker = os.dup(_resource_tracker._fd)
signal.setitimer(signal.ITIMER_REAL, 0.3)
_resource_tracker._stop()
"""


def test_a_resource_tracker_s_stop_waits_for_ever() -> None:
    process = subprocess.run([sys.executable, "-c", HELD], check=False, timeout=60)
    assert process.returncode == -signal.SIGALRM
