"""End of a stage's own threads, processes and `atexit` functions before its output is checked.

The process of a stage ends without a word to its threads, and with what is still in the buffers of its files: an
artifact of the first half of a file would be stored.
"""
# ruff: noqa: PTH115, PTH208  (strings: the kernel's tables)

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from orun.environment import processes
from orun.errors import OutputRefused
from orun.executors.local import closing

if TYPE_CHECKING:
    from threading import Thread

PATIENCE = 1.0  # seconds
# Modules whose `_resource_tracker` is one.
TRACKERS = (
    "multiprocessing.resource_tracker",
    "joblib.externals.loky.backend.resource_tracker",
    "loky.backend.resource_tracker",
)
HINT = "Close what is written to before the function returns (`with open(...) as file:`), and wait for what writes"


def end_all(stage: str, output: str, progress: Callable[[int, int, str], None]) -> None:
    """Wait for threads and processes that do not end by themselves with a program.

    Args:
        stage: its id.
        output: its output folder.
        progress: is told what is waited for where that takes a while; see `Context.progress`.

    Raises:
        OutputRefused: when something still writes below the output folder, or has not written all that it holds.
    """
    _wait_for_threads(progress)
    _wait_for_processes(progress)
    call_exit_functions()
    for process in (os.getpid(), *(processes.descendants(os.getpid()) if _has_children() else ())):
        own, left = process == os.getpid(), sorted(_written_to(process, output))
        if left and own:
            _let_go()
            left = sorted(_written_to(process, output))
        if left:
            why = "what is still in its buffer is not stored" if own else "a process that it started writes to it"
            raise OutputRefused(stage, f"{stage} left {', '.join(left)} open", why=why, hint=HINT)
    for name, error in closing.lost(output).items():
        why = f"it was left open, and when it was closed: {error.strerror}"
        raise OutputRefused(stage, f"{stage} could not write all of {name}", why=why, hint=HINT)


def call_exit_functions() -> None:
    """Call what was registered with `atexit`: by it libraries write what they have held back, and free what they made.

    What one of them raises is told on stderr, and stops nothing, as in a program.
    """
    atexit._run_exitfuncs()  # noqa: SLF001 - Python calls it at its end, which a forked process must not come to


def give_up() -> None:
    """Do without what is still running, after a failure: it is not waited for, and ended with the stage anyway."""
    if multiprocessing := sys.modules.get("multiprocessing"):
        for child in multiprocessing.active_children():
            child.kill()
    call_exit_functions()


def let_trackers_end() -> None:
    """Wait until the semaphores and shared memory are removed that `multiprocessing` and joblib made and did not free.

    Trackers do that, processes that end when nobody holds their connection any more.
    """
    for name in TRACKERS:
        if tracker := getattr(sys.modules.get(name), "_resource_tracker", None):
            _let_end(tracker)


def _let_end(tracker: Any) -> None:
    """Wait for a tracker, unless a worker that is still there holds its connection as well."""
    process, connection = tracker._pid, tracker._fd  # noqa: SLF001 - its own `_stop` would wait for ever
    if connection is None:  # it was not started
        return
    tracker._pid = tracker._fd = None  # noqa: SLF001 - as above
    with contextlib.suppress(OSError):  # it has ended, or is another process's
        os.close(connection)
        until = monotonic() + PATIENCE
        while process and os.waitpid(process, os.WNOHANG) == (0, 0) and monotonic() < until:
            sleep(0.002)


def _wait_for_threads(progress: Callable[[int, int, str], None]) -> None:
    threading = sys.modules.get("threading")
    if threading and (left := [one.name for one in threading.enumerate() if _keeps(one)]):
        told = threading.Timer(PATIENCE, progress, (0, 0, f"it has returned, and left {', '.join(left)} running"))
        told.daemon = True
        told.start()
        threading._shutdown()  # noqa: SLF001 - as `multiprocessing` ends its processes: pools are told to end as well
        told.cancel()


def _keeps(thread: Thread) -> bool:
    """Whether a program does not end before the thread does."""
    return not thread.daemon and thread is not sys.modules["threading"].main_thread()


def _wait_for_processes(progress: Callable[[int, int, str], None]) -> None:
    if multiprocessing := sys.modules.get("multiprocessing"):
        for child in multiprocessing.active_children():
            if child.daemon:
                child.terminate()
            child.join(PATIENCE)
            if child.is_alive():
                progress(0, 0, f"it has returned, and left {child.name} running")
                child.join()


def _has_children() -> bool:
    """Asked of every stage: one call, where to list them would wait for its supervisor, who sees each file opened."""
    if not hasattr(os, "waitid"):
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _let_go() -> None:
    """Close what nobody can use any more, and the files of logs."""
    _flush_texts()  # a collection may close what one writes to before it
    gc.collect()
    if logging := sys.modules.get("logging"):
        logging.shutdown()


def _flush_texts() -> None:
    for one in gc.get_objects():
        if type(one) is TextIOWrapper:
            try:
                one.flush()
            except ValueError:
                pass  # it is closed
            except OSError as error:
                closing.note(one, error)


def _written_to(process: int, folder: str) -> Iterator[str]:
    """The files below a folder that a process has open for writing, by their names in it; none where nobody tells."""
    table = f"{processes.PROC}/{process}"
    with contextlib.suppress(OSError):  # it ended, is another user's, or there is no such table here
        for number in os.listdir(f"{table}/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                path = os.readlink(f"{table}/fd/{number}")
                if path.startswith(f"{folder}/") and _is_writable(f"{table}/fdinfo/{number}"):
                    yield path[len(folder) + 1 :]


def _is_writable(told: str) -> bool:
    with open(told, "rb", buffering=0) as file:  # noqa: PTH123 - as above
        flags = next(line.split()[1] for line in file.readall().splitlines() if line.startswith(b"flags:"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY
