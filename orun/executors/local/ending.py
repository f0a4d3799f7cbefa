"""End of a stage's own threads, processes and `atexit` functions before its output is checked.

The process of a stage ends by `os._exit`, without flushing files or waiting for threads. Without this module, half a
file could be stored as an artifact.
"""
# ruff: noqa: PTH115, PTH123, PTH208  (strings: the kernel's tables)

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from pathlib import Path

from orun.environment import processes
from orun.errors import OutputRefused
from orun.executors.local.compat import join_threads, run_exit_functions

PATIENCE = 1.0  # seconds
HINT = "Close what is written to before the function returns (`with open(...) as file:`), and wait for what writes"


def finish_all(stage: str, output: str, progress: Callable[[int, int, str], None]) -> None:
    """Wait for the threads and processes that a program waits for before it ends, then run `atexit` functions.

    `progress` is told what is waited for when that takes a while; see `Context.progress`.

    Raises:
        OutputRefused: if something still writes below the output folder, or lost what it had buffered.
    """
    _wait_for_threads(progress)
    _wait_for_processes(progress)
    run_exit_functions()
    for process in (os.getpid(), *(processes.iter_descendants(os.getpid()) if _has_children() else ())):
        own, open_files = process == os.getpid(), sorted(_open_for_writing(process, output))
        if open_files and own:
            _close_unreachable_files(stage, output)
            open_files = sorted(_open_for_writing(process, output))
        if open_files:
            why = "what is still in its buffer is not stored" if own else "a process that it started writes to it"
            raise OutputRefused(stage, f"{stage} left {', '.join(open_files)} open", why=why, hint=HINT)


def abandon_all() -> None:
    """After a failure, kill worker processes and run `atexit` functions; threads end with the process."""
    if multiprocessing := sys.modules.get("multiprocessing"):
        for child in multiprocessing.active_children():
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(child.pid, signal.SIGKILL)  # `child.kill` is missing from workers of loky, joblib's default
    run_exit_functions()


def _wait_for_threads(progress: Callable[[int, int, str], None]) -> None:
    if not (threading := sys.modules.get("threading")):
        return
    main = threading.main_thread()
    if running := [thread.name for thread in threading.enumerate() if not thread.daemon and thread is not main]:
        text = f"it has returned, and left {', '.join(running)} running"
        timer = threading.Timer(PATIENCE, progress, (0, 0, text))
        timer.daemon = True
        timer.start()
        join_threads()
        timer.cancel()


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
    """Return whether there are child processes, in one system call.

    This runs for every stage. To list the children takes opens, for each of which the traced process would wait.
    """
    if not hasattr(os, "waitid"):
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _close_unreachable_files(stage: str, output: str) -> None:
    """Close files that nothing refers to, and log files; OutputRefused if text for a file of the output is lost."""
    for stream in gc.get_objects():  # flushed first: a collection may close the file below a text stream before it
        if type(stream) is TextIOWrapper:
            try:
                stream.flush()
            except ValueError:
                pass  # it is closed
            except OSError as error:  # Python itself would say nothing
                name = getattr(stream, "name", None)
                path = str(Path.cwd() / os.fsdecode(name)) if isinstance(name, (str, bytes)) else ""
                if path.startswith(f"{output}/"):
                    why = f"it was left open, and when it was closed: {error.strerror}"
                    message = f"{stage} could not write all of {path[len(output) + 1 :]}"
                    raise OutputRefused(stage, message, why=why, hint=HINT) from error
    gc.collect()
    if logging := sys.modules.get("logging"):
        logging.shutdown()


def _open_for_writing(process: int, folder: str) -> Iterator[str]:
    """Yield the files below a folder that a process has open for writing, by their names in it (Linux only)."""
    table = f"{processes.PROC}/{process}"
    with contextlib.suppress(OSError):  # it ended, is another user's, or there is no such table
        for number in os.listdir(f"{table}/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                path = os.readlink(f"{table}/fd/{number}")
                if path.startswith(f"{folder}/") and _is_writable(f"{table}/fdinfo/{number}"):
                    yield path[len(folder) + 1 :]


def _is_writable(info: str) -> bool:
    with open(info, "rb", buffering=0) as file:
        flags = next(line.split()[1] for line in file.readall().splitlines() if line.startswith(b"flags:"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY
