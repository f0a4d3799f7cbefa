"""A run of `orun mcp` ends with all its processes when the client cancels it, leaves, or the server is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client

from orun.environment.processes import iter_descendants
from tests.agent.support import ended

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")

PATIENCE = 60  # seconds
CODE = """
import subprocess
import time

from orun import Context, stage


@stage(inputs={}, output="files")
def wait(context: Context) -> None:
    subprocess.Popen(["sleep", "600"])
    time.sleep(600)
"""
SERVER = [sys.executable, "-m", "orun", "mcp", "--allow-run"]
REQUESTS: tuple[dict[str, Any], ...] = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {"name": "run", "arguments": {"file": "wait.yaml"}}},
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a pipeline whose stage waits for ten minutes, as does a program that it starts."""
    (tmp_path / "code.py").write_text(CODE, encoding="utf-8")
    (tmp_path / "wait.yaml").write_text("stages: {wait: {uses: ./code.py:wait}}\n", encoding="utf-8")
    return tmp_path


def run_of(server: int) -> list[int]:
    """The processes below a server, once the stage's program is among them; empty before that."""
    below = list(iter_descendants(server))
    return below if any(command_of(process).startswith(b"sleep\0") for process in below) else []


def command_of(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def wait_until(condition: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.slow
def test_a_client_that_cancels_a_call(folder: Path) -> None:
    anyio.run(cancel, folder)


async def cancel(folder: Path) -> None:
    script = 'echo $$ > pid; exec "$@"'
    parameters = StdioServerParameters(command="sh", args=["-c", script, "sh", *SERVER], cwd=folder)
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        server = int((folder / "pid").read_text())
        async with anyio.create_task_group() as group:
            group.start_soon(session.call_tool, "run", {"file": "wait.yaml"})
            await anyio.to_thread.run_sync(wait_until, lambda: run_of(server))
            processes = run_of(server)
            group.cancel_scope.cancel()
        await anyio.to_thread.run_sync(wait_until, lambda: all(map(ended, processes)))
        answer = await session.call_tool("list_pipelines", {})
        assert not answer.is_error


@contextmanager
def serving(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server that runs the pipeline, and whose client has sent all that it will."""
    with subprocess.Popen(SERVER, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as server:
        assert server.stdin
        try:
            for request in REQUESTS:
                server.stdin.write(json.dumps({"jsonrpc": "2.0", **request}).encode() + b"\n")
            server.stdin.flush()
            yield server
        finally:
            server.kill()


def test_a_client_that_leaves(folder: Path) -> None:
    with serving(folder) as server:
        wait_until(lambda: run_of(server.pid))
        processes = run_of(server.pid)
        assert server.stdin
        server.stdin.close()
        assert server.wait(PATIENCE) == 0
        wait_until(lambda: all(map(ended, processes)))


@pytest.mark.slow
def test_a_server_that_is_killed(folder: Path) -> None:
    with serving(folder) as server:
        wait_until(lambda: run_of(server.pid))
        processes = run_of(server.pid)
        os.kill(server.pid, signal.SIGKILL)
        server.wait(PATIENCE)
        wait_until(lambda: all(map(ended, processes)))
