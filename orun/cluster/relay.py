"""Relay of a run: a local Unix socket for each agent of a Ray cluster.

`python -m orun.cluster.relay HEAD FOLDER` makes the sockets in the folder. A connection to a socket is carried to the
agent by its actor (`actor.py`), as bytes. Each line on standard input asks for the machines; the answer and the
losses are messages on standard output. The relay ends with its standard input.

A machine that has not answered for 15 s is lost: its socket closes. It is there again when its agent joins anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError

from orun.cluster.actor import CHUNK, PATIENCE, POLL
from orun.cluster.connection import run_connected
from orun.cluster.messages import Message, Output
from orun.cluster.settings import ACTOR, NAMESPACE, unreachable

AGAIN = 1.0  # seconds between two attempts to list the agents
END_PATIENCE = 2.0  # seconds for the agents to take the news that the run is over
Answer = TypeVar("Answer")


class Relay:
    """The sockets of a run's machines.

    Args:
        address: of the head.
        folder: where the sockets are made.
        output: takes the messages for the run.
    """

    def __init__(self, address: str, folder: Path, output: Output) -> None:
        self._address = address
        self._folder = folder
        self._output = output
        self._sockets: dict[str, str] = {}
        self._lost: set[str] = set()  # ids of actors
        self._numbers = itertools.count()  # of sockets
        self._tunnels: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Carry bytes until standard input or the head ends."""
        watch = asyncio.create_task(self._watch_head())
        serve = asyncio.create_task(self._answer_questions())
        await asyncio.wait((watch, serve), return_when=asyncio.FIRST_COMPLETED)
        for task in self._tunnels:
            task.cancel()
        if self._tunnels:
            await asyncio.wait(self._tunnels, timeout=END_PATIENCE)

    async def _answer_questions(self) -> None:
        """Answer each line of standard input with the machines that are there."""
        questions = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(questions)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        while await questions.readline():
            while not await self._find_machines():  # noqa: ASYNC110 - Ray has no event; `_watch_head` ends this
                await asyncio.sleep(AGAIN)
            self._output.send(Message(sockets=dict(self._sockets)))

    async def _find_machines(self) -> bool:
        """Make a socket for each agent that has joined since the last question; return False if Ray cannot say."""
        listing = asyncio.to_thread(ray.util.list_named_actors, all_namespaces=True)
        try:
            actors = await asyncio.wait_for(listing, PATIENCE)
        except (TimeoutError, RayError):
            return False
        names = [actor["name"] for actor in actors if actor["namespace"] == NAMESPACE]
        for machine in sorted(name.removeprefix(ACTOR) for name in names if name.startswith(ACTOR)):
            if machine in self._sockets:
                continue
            with contextlib.suppress(ValueError):  # it ended meanwhile
                actor = await asyncio.to_thread(ray.get_actor, ACTOR + machine, NAMESPACE)
                if _id_of(actor) in self._lost:  # Ray has not noticed yet
                    continue
                path = str(self._folder / f"{next(self._numbers)}.sock")
                await asyncio.start_unix_server(partial(self._serve, machine, actor), path)
                self._sockets[machine] = path
        return True

    async def _serve(
        self, machine: str, actor: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry the bytes of a connection until it ends."""
        task = cast("asyncio.Task[None]", asyncio.current_task())  # a server calls this in a task
        self._tunnels.add(task)
        try:
            await self._carry(actor, reader, writer)
        except TimeoutError:
            self._lose(machine, actor, f"it has not answered for {PATIENCE:.0f} s")
        except ActorUnavailableError:
            self._lose(machine, actor, "it cannot be reached")
        except ActorDiedError:
            self._lose(machine, actor, "its agent has ended")
        except RayError as error:
            self._lose(machine, actor, str(error).strip().partition("\n")[0])
        finally:
            self._tunnels.discard(task)
            writer.close()

    async def _carry(self, actor: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = await _answered(actor.connect.remote())
        directions = [
            asyncio.create_task(_send(actor, number, reader)),
            asyncio.create_task(_receive(actor, number, writer)),
        ]
        try:
            done, _ = await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in directions:
                task.cancel()
            with contextlib.suppress(Exception):  # it is lost, and has been told of already
                await asyncio.wait_for(actor.close.remote(number), END_PATIENCE)

    def _lose(self, machine: str, actor: Any, why: str) -> None:
        if _id_of(actor) not in self._lost:
            self._lost.add(_id_of(actor))
            self._sockets.pop(machine, None)
            self._output.send(Message(lost=machine, why=why))

    async def _watch_head(self) -> None:
        """Return when the head has refused connections for some time: without it the agents end soon."""
        failures = 0
        while failures * POLL < PATIENCE:
            await asyncio.sleep(POLL)
            why = await asyncio.to_thread(unreachable, self._address)
            failures = failures + 1 if why else 0
        hint = "Start it again, and the agents after it: orun head"
        self._output.send(Message(failed=f"the head at {self._address} has ended", why=why, hint=hint))


def _id_of(actor: Any) -> str:
    """Return the id of an actor, which is another one after a restart."""
    identity: str = actor._actor_id.hex()  # noqa: SLF001 - Ray offers no other way
    return identity


async def _send(actor: Any, number: int, reader: asyncio.StreamReader) -> None:
    """Carry bytes of the run to the agent."""
    while data := await reader.read(CHUNK):
        if not await _answered(actor.send.remote(number, data)):
            return


async def _receive(actor: Any, number: int, writer: asyncio.StreamWriter) -> None:
    """Carry bytes of the agent to the run."""
    while (data := await _answered(actor.receive.remote(number))) is not None:
        if data:
            writer.write(data)
            await writer.drain()


async def _answered(call: Awaitable[Answer]) -> Answer:
    """Return an actor's answer; TimeoutError if there is none in time."""
    return await asyncio.wait_for(call, PATIENCE)


def main() -> None:
    """Be the relay of the process that started this one."""
    address, folder = sys.argv[1], Path(sys.argv[2])

    def work(output: Output) -> None:
        output.send(Message())
        asyncio.run(Relay(address, folder, output).run())

    run_connected(address, work)


if __name__ == "__main__":
    main()
