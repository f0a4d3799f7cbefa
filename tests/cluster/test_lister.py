"""Addresses of agents, as Ray tells them, and the message when one of them is gone. There are no agents here."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.slow
TOKEN = "1" * 64


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


def start(cluster: Cluster, machine: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start a program that imports Ray."""
    return cluster.start(machine, "-m", f"orun.cluster.{arguments[0]}", cluster.head, *arguments[1:], **environment)


def tell(process: subprocess.Popen[str], line: str = "") -> dict[str, Any]:
    """Send a line to a program; return the next message."""
    assert process.stdin
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return message(process)


@contextlib.contextmanager
def member(cluster: Cluster, machine: str) -> Iterator[subprocess.Popen[str]]:
    """A machine that has joined, as if it had an agent."""
    process = start(cluster, machine, "member", machine)
    try:
        assert message(process) == {"host": cluster.network.address(machine)}
        assert tell(process, f"tcp://{machine}:7777 {TOKEN}") == {}
        yield process
    finally:
        cluster.end(process)


@contextlib.contextmanager
def lister(cluster: Cluster, machine: str) -> Iterator[Callable[[], object]]:
    """A lister that is connected: a function that asks it."""
    process = start(cluster, machine, "lister")
    try:
        assert message(process) == {"host": cluster.network.address(machine)}
        yield lambda: tell(process)["agents"]
        assert process.stdin
        process.stdin.close()
        assert process.wait(60) == 0
    finally:
        cluster.end(process)


def listed(*machines: str) -> dict[str, list[str]]:
    """Return what a lister says of machines."""
    return {machine: [f"tcp://{machine}:7777", TOKEN] for machine in machines}


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; fail after half a minute."""
    until = monotonic() + 30
    while not condition():
        assert monotonic() < until
        sleep(0.2)


def test_the_agents_of_other_machines_are_listed(cluster: Cluster) -> None:
    with lister(cluster, "head") as ask:
        assert ask() == {}
        with member(cluster, "a"), member(cluster, "b"):
            assert ask() == listed("a", "b")


def test_a_machine_joins_the_cluster_to_run_on_it(cluster: Cluster) -> None:
    with member(cluster, "a"), lister(cluster, "b") as ask:
        assert ask() == listed("a")


def test_an_agent_outlives_the_run_that_has_started_ray_on_its_machine(cluster: Cluster) -> None:
    with contextlib.ExitStack() as stack:
        with lister(cluster, "a"):
            stack.enter_context(member(cluster, "a"))
        sleep(3.0)  # in which Ray would end
        ask = stack.enter_context(lister(cluster, "head"))
        assert ask() == listed("a")


def test_a_run_starts_while_the_ray_of_the_last_one_ends(cluster: Cluster) -> None:
    with member(cluster, "a"):
        for _ in range(3):
            with lister(cluster, "b") as ask:
                assert ask() == listed("a")


def test_ray_ends_with_its_last_user_however_that_ends(cluster: Cluster) -> None:
    run = start(cluster, "b", "lister")
    assert message(run) == {"host": cluster.network.address("b")}
    assert raylets(cluster, "b")
    cluster.end(run, signal.SIGKILL)
    wait_until(lambda: not raylets(cluster, "b"))


def raylets(cluster: Cluster, machine: str) -> list[int]:
    """Return the processes of Ray on a machine."""
    option = f"--node_ip_address={cluster.network.address(machine)}".encode()
    processes = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if option in path.read_bytes().split(b"\0"):
                processes.append(int(path.parent.name))
    return processes


def test_a_name_that_is_taken_is_refused(cluster: Cluster) -> None:
    with member(cluster, "a"):
        second = start(cluster, "b", "member", "a")
        assert message(second) == {"host": cluster.network.address("b")}
        assert tell(second, f"tcp://b:7777 {TOKEN}") == {
            "failed": f"a machine named a has joined {cluster.head} already",
            "hint": "Give this machine another name: --name",
        }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_machine_that_ends_is_listed_no_more(cluster: Cluster, number: signal.Signals) -> None:
    with member(cluster, "a") as joined, lister(cluster, "head") as ask:
        assert ask() == listed("a")
        cluster.end(joined, number)
        wait_until(lambda: ask() == {})


def test_a_machine_that_is_cut_off_is_listed_no_more_and_its_agent_is_told(cluster: Cluster) -> None:
    with member(cluster, "a") as joined, lister(cluster, "head") as ask:
        assert ask() == listed("a")
        cluster.network.cut("a")
        try:
            wait_until(lambda: ask() == {})
            assert message(joined)["failed"].startswith(f"the head at {cluster.head} has ")
        finally:
            cluster.network.mend("a")


def test_a_wrong_token_is_refused(cluster: Cluster) -> None:
    run = start(cluster, "head", "lister", RAY_AUTH_TOKEN="1" * 64)
    assert message(run)["failed"] == f"the head at {cluster.head} refuses this machine's token"
