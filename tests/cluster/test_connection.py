"""Connecting to a head that accepts connections and never answers. A socket stands for it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from time import sleep

import pytest

from orun.cluster.settings import build_environment

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'orun[ray]'"),
]
LOOKS = 2  # connections of orun before Ray's own: is there a head, and which address of this machine leads there


class Head:
    """Head that accepts connections and never answers.

    Attributes:
        address: of it, `HOST:PORT`.
        lister: command of a lister that connects to it.
    """

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._socket = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._socket.settimeout(60)
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.lister = [sys.executable, "-P", "-m", "orun.cluster.lister", self.address]

    def start(self, command: list[str]) -> subprocess.Popen[bytes]:
        """Start a process that may use Ray. The test kills it."""
        environment = {**build_environment(), "RAY_AUTH_TOKEN": "1" * 64}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        return process

    def wait_for_ray(self) -> None:
        """Return when Ray connects."""
        for _ in range(LOOKS):
            self._stack.enter_context(self._socket.accept()[0])
        sleep(3.0)  # in which Ray takes its handlers of signals

    def end(self) -> None:
        """Refuse connections from now on."""
        self._socket.close()


@pytest.fixture
def head() -> Iterator[Head]:
    """A head that never answers."""
    with contextlib.ExitStack() as stack:
        yield Head(stack)


def test_a_head_that_ends_while_ray_connects_has_ended(head: Head) -> None:
    lister = head.start(head.lister)
    head.wait_for_ray()
    head.end()
    assert lister.stdout
    assert select.select([lister.stdout], [], [], 60)[0], "the lister says nothing"
    assert json.loads(lister.stdout.read()) == {
        "failed": f"the head at {head.address} has ended",
        "why": "Connection refused",
        "hint": "Start it again, and the agents after it: orun head",
    }


def test_a_lister_ends_with_its_run_while_ray_connects(head: Head) -> None:
    run = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); input()"
    process = head.start([sys.executable, "-c", run, *head.lister])
    assert process.stdout
    lister = os.pidfd_open(int(process.stdout.readline()))
    head.wait_for_ray()
    process.kill()
    try:
        assert select.select([lister], [], [], 20)[0], "the lister goes on without its run"
    finally:
        signal.pidfd_send_signal(lister, signal.SIGKILL)
        os.close(lister)
