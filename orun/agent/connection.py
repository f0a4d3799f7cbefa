"""Connections of a driver to agents, and the threads that make them."""

from __future__ import annotations

import os
import platform
import selectors
import socket
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from time import monotonic

from orun.agent.address import Address, compute_proof
from orun.agent.frames import Challenge, FrameError, Hello, Message
from orun.agent.local_machine import compute_code_digest
from orun.agent.peer import Peer
from orun.core.machines import Machine
from orun.environment.env_vars import AGENT_TOKEN
from orun.errors import UsageError
from orun.remote.thread_pool import DaemonThreadPool

HELLO_SECONDS = 10.0  # for an agent to introduce itself
AT_A_TIME = 32  # connections that are opened
SET_TOKEN = f"export {AGENT_TOKEN}=$(cat FILE), with the FILE that it was started with: orun agent --token-file FILE"


class Connection:
    """Connection of a driver to one agent.

    Raises:
        UsageError: if no agent answers, it refuses this driver, or it has another orun or Python than this process.
    """

    def __init__(self, sock: socket.socket, place: str, token: str) -> None:
        self.place = place  # where the agent was found, for messages
        self.peer = Peer(sock)
        self.leaving = False  # whether it takes no more orders
        self._arrived: deque[Message] = deque()
        challenge = self._receive_first()
        nonce = challenge.nonce if isinstance(challenge, Challenge) else ""
        if nonce and not token:
            self.peer.close()
            raise UsageError(f"the agent at {place} asks for a token", hint=SET_TOKEN)
        self.peer.send(Hello(f"{platform.node()} ({os.getpid()})", compute_proof(token, nonce) if nonce else ""))
        machine = self._receive_first()
        if not isinstance(machine, Machine):
            self.peer.close()
            raise UsageError(f"what listens at {place} is no agent of orun")
        if difference := find_difference(machine, place):
            self.peer.close()
            raise difference
        self.machine = machine

    def _receive_first(self) -> Message:
        """Wait for the next message while the two ends introduce themselves."""
        until = monotonic() + HELLO_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self.peer, selectors.EVENT_READ)
            while not self._arrived:
                if (refused := self.peer.closed) or monotonic() > until:
                    self.peer.close()
                    raise UsageError(
                        f"the agent at {self.place} {'refuses this driver' if refused else 'does not answer'}",
                        why="it has another token, or it has ended",
                        hint=f"see what it prints on its machine; if it asks for a token: {SET_TOKEN}",
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


def find_difference(machine: Machine, place: str) -> UsageError | None:
    """Return why the machine of the agent at a place and this one cannot work on one run; None if they can."""
    if machine.orun != compute_code_digest():
        return UsageError(
            f"machine {machine.id} runs another orun than this one",
            why=f"the agent at {place} has other code: keys and results would not be comparable",
            hint="Install the same version on both, and start the agent there again",
        )
    here = platform.python_version()
    if strip_patch(machine.python) != strip_patch(here):
        return UsageError(
            f"machine {machine.id} runs Python {machine.python}, and this one {here}",
            why=f"the agent at {place} has another minor version: stages would run on other libraries",
            hint=f"Start the agent there with Python {strip_patch(here)}, "
            f"or run here with {strip_patch(machine.python)}",
        )
    return None


def strip_patch(version: str) -> str:
    """Return `3.11` of `3.11.9`."""
    return ".".join(version.split(".")[:2])


class Connector:
    """Connects to agents in threads, so that an agent that does not answer keeps nobody waiting.

    `ended` is called in another thread when an attempt has ended.
    """

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._pool = DaemonThreadPool(AT_A_TIME)
        self._attempts: dict[str, Future[Connection | UsageError | None]] = {}  # by the place of the agent

    @property
    def busy(self) -> bool:
        """Whether an attempt is under way, or its result was not taken."""
        return bool(self._attempts)

    def begin(self, address: Address, place: str, *, expected: bool) -> None:
        """Begin to connect to an agent, unless that is under way. It is an error if an expected one does not listen."""
        if place not in self._attempts:
            attempt = self._pool.submit(_connect, address, place, expected=expected)
            self._attempts[place] = attempt
            attempt.add_done_callback(lambda _: self._ended())

    def take(self, timeout: float = 0.0) -> list[Connection | UsageError]:
        """Return what came of the attempts that have ended; wait for the first, `timeout` seconds at most."""
        ended, _ = wait(self._attempts.values(), timeout, FIRST_COMPLETED)
        places = [place for place, attempt in self._attempts.items() if attempt in ended]
        results = [self._attempts.pop(place).result() for place in places]
        return [result for result in results if result is not None]

    def close(self) -> None:
        """Close the connections that nobody took, as soon as they are made."""
        self._pool.shutdown()
        for attempt in self._attempts.values():
            attempt.add_done_callback(_hang_up)


def _connect(address: Address, place: str, *, expected: bool) -> Connection | UsageError | None:
    try:
        sock = address.connect()
    except UsageError as error:
        return error if expected else None
    try:
        return Connection(sock, place, address.token)
    except UsageError as error:
        return error


def _hang_up(attempt: Future[Connection | UsageError | None]) -> None:
    """Close the connection of an attempt that made one."""
    if not attempt.cancelled() and not attempt.exception() and isinstance(connection := attempt.result(), Connection):
        connection.peer.close()
