"""The actor that carries bytes to an agent's socket, called without Ray."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from orun.cluster import actor
from orun.cluster.actor import Tunnel

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An agent that answers with what it gets."""
    while data := await reader.read(100):
        writer.write(data)
        await writer.drain()
    await end(writer)


async def end(writer: asyncio.StreamWriter) -> None:
    """Close a connection."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def with_agent(test: Callable[[Tunnel], Awaitable[None]], handler: Handler = echo) -> None:
    """Run a test with a tunnel to an agent."""

    async def run() -> None:
        with TemporaryDirectory() as folder:  # whose path is short
            path = str(Path(folder, "agent.sock"))
            async with await asyncio.start_unix_server(handler, path):
                tunnel = Tunnel(path)
                await test(tunnel)
                for number in list(tunnel.connections):
                    await tunnel.close(number)
                await asyncio.sleep(0.01)  # the agent's ends close, too

    asyncio.run(run())


def test_bytes_go_and_come() -> None:
    async def test(tunnel: Tunnel) -> None:
        number = await tunnel.connect()
        assert await tunnel.send(number, b"first")
        assert await tunnel.receive(number) == b"first"
        await tunnel.close(number)

    with_agent(test)


def test_connections_are_apart() -> None:
    async def test(tunnel: Tunnel) -> None:
        first, second = await tunnel.connect(), await tunnel.connect()
        await tunnel.send(first, b"1")
        await tunnel.send(second, b"2")
        assert (await tunnel.receive(second), await tunnel.receive(first)) == (b"2", b"1")

    with_agent(test)


def test_silence_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor, "POLL", 0.01)

    async def test(tunnel: Tunnel) -> None:
        number = await tunnel.connect()
        assert await tunnel.receive(number) == b""
        await tunnel.send(number, b"late")
        while not (data := await tunnel.receive(number)):
            pass
        assert data == b"late"

    with_agent(test)


def test_the_end_of_the_agent_is_seen() -> None:
    async def leave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await end(writer)

    async def test(tunnel: Tunnel) -> None:
        number = await tunnel.connect()
        assert await tunnel.receive(number) is None

    with_agent(test, leave)


def test_a_closed_connection_carries_nothing() -> None:
    async def test(tunnel: Tunnel) -> None:
        number = await tunnel.connect()
        await tunnel.close(number)
        assert not await tunnel.send(number, b"data")
        assert await tunnel.receive(number) is None

    with_agent(test)


def test_the_connection_of_a_run_that_asks_no_more_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor, "POLL", 0.01)
    monkeypatch.setattr(actor, "PATIENCE", 0.0)
    ended = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        await end(writer)
        ended.set()

    async def test(tunnel: Tunnel) -> None:
        await tunnel.connect()
        await ended.wait()

    with_agent(test, wait)
