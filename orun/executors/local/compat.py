"""Work-arounds for the standard library, each with the versions of CPython that need it.

`tests/executors/local/test_compat.py` fails once a work-around is no longer needed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import sys
from array import array
from time import monotonic, sleep

# Modules with a `_resource_tracker`.
TRACKERS = (
    "multiprocessing.resource_tracker",
    "joblib.externals.loky.backend.resource_tracker",
    "loky.backend.resource_tracker",
)


def receive_descriptors(connection: socket.socket, size: int, most: int, flags: int) -> tuple[bytes, list[int]]:
    """Receive data and file descriptors as `socket.recv_fds` does; that ignores `flags` before CPython 3.12."""
    descriptors = array("i")
    data, messages, _, _ = connection.recvmsg(size, socket.CMSG_LEN(most * descriptors.itemsize), flags)
    for _, _, content in messages:
        descriptors.frombytes(content)
    return data, list(descriptors)


def run_exit_functions() -> None:
    """Run the functions registered with `atexit`, which `os._exit` skips; CPython has no public call for it.

    Libraries write buffered data and free resources in them. Errors go to stderr, as at the end of a program.
    """
    atexit._run_exitfuncs()  # noqa: SLF001 - see above


def join_threads() -> None:
    """Join all threads that are not daemons; CPython has no public call for it.

    Unlike a loop over `Thread.join`, this first asks the pools of `concurrent.futures` to stop.
    """
    import threading

    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - see above


def stop_resource_trackers(patience: float) -> None:
    """Let resource trackers remove leaked semaphores and shared memory, and wait `patience` seconds for each.

    A tracker stops when nobody holds its connection. Its own `_stop` waits for ever if a worker still does, in all
    versions of CPython.
    """
    for name in TRACKERS:
        tracker = getattr(sys.modules.get(name), "_resource_tracker", None)
        if tracker is None or tracker._fd is None:  # noqa: SLF001 - see above
            continue
        process, connection = tracker._pid, tracker._fd  # noqa: SLF001
        tracker._pid = tracker._fd = None  # noqa: SLF001
        with contextlib.suppress(OSError):  # it has ended, or belongs to another process
            os.close(connection)
            until = monotonic() + patience
            while process and os.waitpid(process, os.WNOHANG) == (0, 0) and monotonic() < until:
                sleep(0.002)
