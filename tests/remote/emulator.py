"""Emulators of object stores: programs that listen on loopback until they are not needed any more."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from tests.shared import shared_folder

START_SECONDS = 60.0
# Runs a program in the background until the standard input ends.
WHILE_HELD_OPEN = 'exec 3<&0; { "$@" 3<&- & cat <&3 >/dev/null; kill $!; } &'


@contextmanager
def listening(command: Callable[[int], Sequence[str]]) -> Iterator[int]:
    """The port of a program that is told it by its command line, and listens there."""
    port = _free_port()
    arguments = command(port)
    server = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    try:
        _wait_for(port, Path(arguments[0]).name)
        yield port
    finally:
        server.terminate()
        server.wait(20)


@contextmanager
def listening_once(
    factory: pytest.TempPathFactory, name: str, command: Callable[[int], Sequence[str]]
) -> Iterator[int]:
    """The port of a program as above that all workers of a session of tests share.

    Each worker keeps a named pipe open for writing. When the last has closed it, or has died, the program ends.

    Args:
        factory: of temporary folders.
        name: of the program's files.
        command: as above.
    """
    folder = shared_folder(factory)
    pipe, port = folder / f"{name}.pipe", folder / f"{name}.port"
    with FileLock(folder / f"{name}.lock"):
        if not pipe.exists():
            os.mkfifo(pipe)
        try:
            writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads it: the program has not started yet, or has ended with its last user
            reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            writer = os.open(pipe, os.O_WRONLY)
            os.set_blocking(reader, True)
            number = _free_port()
            shell = ["sh", "-c", WHILE_HELD_OPEN, "sh", *command(number)]
            subprocess.run(shell, stdin=reader, stdout=subprocess.DEVNULL, check=True)
            os.close(reader)
            _wait_for(number, name)
            port.write_text(str(number), "utf-8")
    try:
        yield int(port.read_text("utf-8"))
    finally:
        os.close(writer)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def _wait_for(port: int, program: str) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < end, f"{program} does not answer"
            time.sleep(0.1)
        else:
            return
