"""Emulators of object stores: programs that listen on loopback until they are not needed any more."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 30.0


@contextmanager
def listening(command: Callable[[int], Sequence[str]]) -> Iterator[int]:
    """The port of a program that is told it by its command line, and listens there."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    words = command(port)
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    try:
        _wait_for(port, Path(words[0]).name)
        yield port
    finally:
        server.terminate()
        server.wait(20)


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
