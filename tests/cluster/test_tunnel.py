"""Bytes through Ray between machines, and what is said when one of them is gone. The agent is an echo here."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

import pytest

from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.slow


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it gets."""

    def handle(self) -> None:
        while data := self.request.recv(1 << 16):
            self.request.sendall(data)


@pytest.fixture(scope="module")
def agent() -> Iterator[Path]:
    """The socket of an agent."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "agent.sock")
        with socketserver.ThreadingUnixStreamServer(str(path), Echo) as server:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield path
            server.shutdown()


def message(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the next message of a relay or member, which also prints what Ray says."""
    assert process.stdout
    lines = []
    for line in process.stdout:
        if line.startswith("{"):
            parsed: dict[str, Any] = json.loads(line)
            return parsed
        lines.append(line)
    raise AssertionError("".join(lines))


def ask(relay: subprocess.Popen[str]) -> dict[str, Any]:
    """Ask a relay for the machines."""
    assert relay.stdin
    relay.stdin.write("\n")
    relay.stdin.flush()
    return message(relay)


@contextlib.contextmanager
def member(cluster: Cluster, machine: str, agent: Path) -> Iterator[subprocess.Popen[str]]:
    """A machine that has joined."""
    process = cluster.start(machine, "-m", "orun.cluster.member", cluster.head, machine, str(agent))
    try:
        assert message(process) == {}
        yield process
    finally:
        cluster.end(process)


@contextlib.contextmanager
def relay(cluster: Cluster, machine: str) -> Iterator[subprocess.Popen[str]]:
    """A relay that is connected."""
    with TemporaryDirectory() as folder:
        process = cluster.start(machine, "-m", "orun.cluster.relay", cluster.head, folder)
        try:
            assert message(process) == {}
            yield process
            assert process.stdin
            process.stdin.close()
            assert process.wait(60) == 0
        finally:
            cluster.end(process)


def connect(path: str) -> socket.socket:
    """Connect to a relay's socket."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(path)
    return connection


def receive(connection: socket.socket, count: int) -> bytes:
    """Receive so many bytes, or those until the end."""
    data = b""
    while len(data) < count and (part := connection.recv(1 << 16)):
        data += part
    return data


def test_bytes_reach_the_agents_of_other_machines_and_come_back(cluster: Cluster, agent: Path) -> None:
    data = bytes(range(256)) * 2000  # more than Ray carries in a message
    with member(cluster, "a", agent), member(cluster, "b", agent), relay(cluster, "head") as run:
        sockets = ask(run)["sockets"]
        assert sorted(sockets) == ["a", "b"]
        for path in sockets.values():
            with connect(path) as connection:
                threading.Thread(target=connection.sendall, args=(data,)).start()
                assert receive(connection, len(data)) == data


def test_a_machine_joins_the_cluster_to_run_on_it(cluster: Cluster, agent: Path) -> None:
    with member(cluster, "a", agent), relay(cluster, "b") as run, connect(ask(run)["sockets"]["a"]) as connection:
        connection.sendall(b"text")
        assert receive(connection, 4) == b"text"


def test_an_agent_outlives_the_run_that_has_started_ray_on_its_machine(cluster: Cluster, agent: Path) -> None:
    with contextlib.ExitStack() as stack:
        with relay(cluster, "a"):
            stack.enter_context(member(cluster, "a", agent))
        sleep(3.0)  # in which Ray would end
        run = stack.enter_context(relay(cluster, "head"))
        with connect(ask(run)["sockets"]["a"]) as connection:
            connection.sendall(b"text")
            assert receive(connection, 4) == b"text"


def test_a_run_starts_while_the_ray_of_the_last_one_ends(cluster: Cluster, agent: Path) -> None:
    with member(cluster, "a", agent):
        for _ in range(3):
            with relay(cluster, "b") as run:
                assert list(ask(run)["sockets"]) == ["a"]


def test_ray_ends_with_its_last_user_however_that_ends(cluster: Cluster) -> None:
    with TemporaryDirectory() as folder:
        run = cluster.start("b", "-m", "orun.cluster.relay", cluster.head, folder)
        assert message(run) == {}
        assert raylets(cluster, "b")
        cluster.end(run, signal.SIGKILL)
    until = monotonic() + 30
    while raylets(cluster, "b") and monotonic() < until:
        sleep(0.2)
    assert raylets(cluster, "b") == []


def raylets(cluster: Cluster, machine: str) -> list[int]:
    """Return the processes of Ray on a machine."""
    option = f"--node_ip_address={cluster.network.address(machine)}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if option in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def test_a_name_that_is_taken_is_refused(cluster: Cluster, agent: Path) -> None:
    with member(cluster, "a", agent):
        second = cluster.start("b", "-m", "orun.cluster.member", cluster.head, "a", str(agent))
        assert message(second) == {
            "failed": f"a machine named a has joined {cluster.head} already",
            "hint": "Give this machine another name: --name",
        }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_machine_that_ends_is_lost(cluster: Cluster, agent: Path, number: signal.Signals) -> None:
    with member(cluster, "a", agent) as joined, relay(cluster, "head") as run:
        with connect(ask(run)["sockets"]["a"]) as connection:
            connection.sendall(b"text")
            assert receive(connection, 4) == b"text"
            cluster.end(joined, number)
            assert connection.recv(1) == b""
        assert message(run) == {"lost": "a", "why": "its agent has ended"}
        assert ask(run) == {"sockets": {}}


def test_a_machine_that_is_cut_off_is_lost(cluster: Cluster, agent: Path) -> None:
    with member(cluster, "a", agent), relay(cluster, "head") as run:
        with connect(ask(run)["sockets"]["a"]) as connection:
            connection.sendall(b"text")
            assert receive(connection, 4) == b"text"
            cluster.network.cut("a")
            try:
                assert connection.recv(1) == b""
            finally:
                cluster.network.mend("a")
        assert message(run) == {"lost": "a", "why": "it cannot be reached"}


def test_a_wrong_token_is_refused(cluster: Cluster) -> None:
    with TemporaryDirectory() as folder:
        run = cluster.start("head", "-m", "orun.cluster.relay", cluster.head, folder, RAY_AUTH_TOKEN="1" * 64)
        assert message(run)["failed"] == f"the head at {cluster.head} refuses this machine's token"
