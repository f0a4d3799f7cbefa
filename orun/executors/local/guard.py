"""Guard of the first fork server: a process that only waits, and ends what the server leaves when it is killed."""

from __future__ import annotations

import contextlib
import os
import signal

from orun.environment import processes


def fork_guarded() -> None:
    """Continue in a forked process; this one waits for its end, and then ends with all that it left.

    The guard keeps the connection to the runner open, so that it closes only when everything is gone.
    """
    signal.signal(signal.SIGTERM, ignore_signal)
    processes.adopt_orphans()
    server = os.fork()
    if not server:
        return
    own = {server}

    def end_remains(process: int) -> None:
        own.discard(process)
        processes.end_orphans(own)

    with contextlib.suppress(ChildProcessError):
        while True:
            processes.wait_for_child(end_remains, block=True)
    os._exit(0)


def ignore_signal(_number: int, _frame: object) -> None:
    """Ignore a signal; unlike SIG_IGN, a handler is not inherited by programs that are started."""
