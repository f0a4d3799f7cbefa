"""Connections of a driver to agents, and the threads that make them."""

from __future__ import annotations

import os
import platform
import selectors
import socket
from collections import deque
from queue import Empty, SimpleQueue
from time import monotonic

from orun.agent.address import Address, proof_of
from orun.agent.frames import Challenge, FrameError, Hello, Message
from orun.agent.local_machine import code_digest
from orun.agent.peer import Peer
from orun.core.machines import Machine
from orun.environment.env_vars import AGENT_TOKEN
from orun.errors import UsageError
from orun.remote.thread_pool import DaemonThreadPool

HELLO_SECONDS = 10.0  # for an agent to introduce itself
AT_A_TIME = 32  # connections that are opened


class Link:
    """Connection to one agent.

    Attributes:
        place: where the agent was found, for messages.
        machine: its machine, as it described itself.
        leaving: whether it takes no more orders.

    Raises:
        UsageError: if no agent answers, it refuses this driver, or it has another orun or Python than this process.
    """

    def __init__(self, connection: socket.socket, place: str, token: str) -> None:
        self.place = place
        self.peer = Peer(connection)
        self.leaving = False
        self._arrived: deque[Message] = deque()
        challenge = self._first()
        nonce = challenge.nonce if isinstance(challenge, Challenge) else ""
        if nonce and not token:
            self.peer.close()
            raise UsageError(f"the agent at {place} asks for a token", hint=f"export {AGENT_TOKEN}=$(cat FILE)")
        self.peer.send(Hello(f"{platform.node()} ({os.getpid()})", proof_of(token, nonce) if nonce else ""))
        machine = self._first()
        if not isinstance(machine, Machine):
            self.peer.close()
            raise UsageError(f"what listens at {place} is no agent of orun")
        if difference := difference_of(machine, place):
            self.peer.close()
            raise difference
        self.machine = machine

    def _first(self) -> Message:
        """Wait for the next message while the two ends introduce themselves."""
        until = monotonic() + HELLO_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self.peer, selectors.EVENT_READ)
            while not self._arrived:
                if (refused := self.peer.closed) or monotonic() > until:
                    self.peer.close()
                    raise UsageError(
                        f"the agent at {self.place} {'refuses this driver' if refused else 'does not answer'}",
                        why="its token may be another one, or it has ended",
                        hint="see what it prints on its machine",
                    )
                selector.select(until - monotonic())
                self._arrived += self._receive()
        return self._arrived.popleft()

    def _receive(self) -> list[Message]:
        try:
            return self.peer.receive()
        except FrameError as error:
            self.peer.close()
            raise UsageError(
                f"what listens at {self.place} is no agent of this version of orun", why=str(error)
            ) from None

    def drain(self) -> list[Message]:
        """Return the messages that have arrived."""
        messages = [*self._arrived, *self._receive()]
        self._arrived.clear()
        return messages


def difference_of(machine: Machine, place: str) -> UsageError | None:
    """Return why a machine and this one cannot work on one run; None if they can.

    Args:
        machine: the other machine.
        place: where its agent is.
    """
    if machine.orun != code_digest():
        return UsageError(
            f"machine {machine.id} runs another orun than this one",
            why=f"the agent at {place} has other code: keys and results would not be comparable",
            hint="Install the same version on both, and start the agent there again",
        )
    here = platform.python_version()
    if minor_of(machine.python) != minor_of(here):
        return UsageError(
            f"machine {machine.id} runs Python {machine.python}, and this one {here}",
            why=f"the agent at {place} has another minor version: stages would run on other libraries",
            hint=f"Start the agent there with Python {minor_of(here)}, or run here with {minor_of(machine.python)}",
        )
    return None


def minor_of(version: str) -> str:
    """Return `3.11` of `3.11.9`."""
    return ".".join(version.split(".")[:2])


class Connector:
    """Connects to agents in threads, so that an agent that does not answer keeps nobody waiting."""

    def __init__(self) -> None:
        self._pool = DaemonThreadPool(AT_A_TIME)
        self._tried: set[str] = set()
        self._ended: SimpleQueue[tuple[str, Link | UsageError | None]] = SimpleQueue()
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether an attempt is under way."""
        return bool(self._tried)

    def begin(self, address: Address, place: str, *, expected: bool) -> None:
        """Begin to connect to an agent, unless that is under way.

        Args:
            address: of the agent.
            place: where the agent is, for messages.
            expected: whether it is an error if nobody listens there.
        """
        if place not in self._tried:
            self._tried.add(place)
            self._pool.submit(self._connect, address, place, expected=expected)

    def _connect(self, address: Address, place: str, *, expected: bool) -> None:
        result: Link | UsageError | None
        try:
            connection = address.connect()
        except UsageError as error:
            result = error if expected else None
        else:
            try:
                result = Link(connection, place, address.token)
            except UsageError as error:
                result = error
        if self._closed and isinstance(result, Link):
            result.peer.close()
        self._ended.put((place, result))

    def take(self, timeout: float = 0.0) -> list[Link | UsageError]:
        """Return what came of the attempts that have ended; wait for the first, `timeout` seconds at most."""
        results: list[Link | UsageError] = []
        while True:
            try:
                place, result = self._ended.get(timeout=timeout) if timeout > 0 else self._ended.get_nowait()
            except Empty:
                return results
            timeout = 0.0
            self._tried.discard(place)
            if result is not None:
                results.append(result)

    def close(self) -> None:
        """Close the connections that nobody took."""
        self._closed = True
        self._pool.shutdown()
        for result in self.take():
            if isinstance(result, Link):
                result.peer.close()
