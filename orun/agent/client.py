"""Fleet of agents that are connected to this process by sockets."""

from __future__ import annotations

import os
import selectors
from collections import deque
from collections.abc import Iterable, Mapping
from time import monotonic

from orun.agent.address import Address, Directory, GivenAddresses
from orun.agent.connection import Connection, Connector
from orun.agent.frames import Cancel, Close, FactsFailed, FactsRequest, Message
from orun.agent.peer import BEAT_SECONDS, LEASE_SECONDS, Beater, Waker
from orun.core.events import Notice, StageWaiting
from orun.core.machines import (
    Built,
    Failed,
    Joined,
    Leaving,
    LogText,
    Lost,
    Machine,
    MachineFacts,
    Order,
    Refused,
    Snapshot,
)
from orun.core.run_record import Failure
from orun.environment.env_vars import AGENT_TOKEN
from orun.errors import UsageError
from orun.executors import Progress
from orun.runner.fleet import FleetMessage

LOOK_SECONDS = 5.0  # for agents that have come back to answer
FACTS_SECONDS = 120.0  # for a machine to fetch the project and to tell its facts
PASSED = (Progress, LogText, StageWaiting, Notice)  # messages on the way, to be passed on
LAST = (Built, Failed, Refused, Lost)  # messages that end an order


class SocketFleet:
    """Fleet of the agents in a directory. Satisfies `orun.runner.fleet.Fleet`.

    One of its agents must answer at first; the others are used when they do. `lease` is the silence after which one
    counts as lost.

    Raises:
        UsageError: if agents are there and none can be used, because of the first that cannot.
    """

    def __init__(self, directory: Directory, lease: float = LEASE_SECONDS) -> None:
        self._directory = directory
        self._lease = lease
        self._connections: dict[str, Connection] = {}
        self._running: set[tuple[str, str]] = set()  # machine and stage of each order that has no last message yet
        self._messages: deque[FleetMessage] = deque()
        self._waker = Waker()
        self._connector = Connector(self._waker.wake)
        self._question: FactsRequest | None = None  # for machines that join during the run
        self._unasked: set[str] = set()  # machines that have joined and were not asked for facts
        self._refused: set[str] = set()  # why agents could not be added, each said once
        self._selector = selectors.DefaultSelector()
        self.beater = Beater(
            lambda: [each.peer for each in list(self._connections.values())], min(BEAT_SECONDS, lease / 3)
        )
        self._selector.register(self._waker, selectors.EVENT_READ)
        self._woken = False
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        """Connect to all agents; UsageError if none of them can be used."""
        places = self._seek(wait=True, expected=True)
        connections: list[Connection | UsageError] = []
        while self._connector.busy:
            connections += self._connector.take(LOOK_SECONDS)
        connections.sort(key=lambda each: places.index(each.place) if isinstance(each, Connection) else len(places))
        problems = self._register_all(connections)
        if problems and not self._connections:
            raise problems[0]
        for problem in problems:
            self._warn(problem)

    def _seek(self, *, wait: bool, expected: bool = False) -> list[str]:
        """Begin to connect to the agents that are not connected; return the places of all."""
        present = {connection.place for connection in self._connections.values()}
        addresses = self._directory.find(wait=wait)
        for place, address in addresses.items():
            if place not in present:
                self._connector.begin(address, place, expected=expected)
        return list(addresses)

    def _register_all(self, connections: Iterable[Connection | UsageError]) -> list[UsageError]:
        """Add connected agents; return why others could not be connected to, or cannot be added."""
        problems = []
        for connection in connections:
            problem = connection if isinstance(connection, UsageError) else self._register(connection)
            if problem:
                problems.append(problem)
        return problems

    def _register(self, connection: Connection) -> UsageError | None:
        """Add a connected agent, or let it go; return why it cannot be used."""
        machine, place = connection.machine, connection.place
        if machine.id in self._connections:
            connection.peer.close()
            return UsageError(
                f"two machines are called {machine.id}: those at {self._connections[machine.id].place} and {place}",
                hint="give one of them a name of its own: orun agent --name NAME ...",
            )
        self._connections[machine.id] = connection
        self._unasked.add(machine.id)
        self._selector.register(connection.peer, selectors.EVENT_READ, machine.id)
        return None

    def machines(self) -> tuple[Machine, ...]:
        """Return the machines that are there now; connect to agents that have come, or come back.

        An agent that does not answer within `LOOK_SECONDS` is left out.
        """
        self._gather()
        self._seek(wait=True)
        until = monotonic() + LOOK_SECONDS
        while self._connector.busy and (left := until - monotonic()) > 0:
            self._welcome(left)
        return tuple(connection.machine for connection in self._connections.values() if not connection.leaving)

    def look(self, snapshot: Snapshot, remote: str) -> None:
        """Begin to connect to agents that have come; `Joined` follows for each that can tell its facts."""
        self._question = FactsRequest(snapshot, remote)
        self._seek(wait=False)

    def _welcome(self, timeout: float = 0.0) -> None:
        """Add the agents that a connection was made to, and ask them for their facts during a run."""
        for problem in self._register_all(self._connector.take(timeout)):
            self._warn(problem)
        if self._question:
            for name in self._unasked & self._connections.keys():
                self._connections[name].peer.send(self._question)
            self._unasked.clear()

    def _warn(self, error: UsageError) -> None:
        """Say once why an agent cannot be used."""
        text = _format_error(error)
        if text not in self._refused:
            self._refused.add(text)
            self._messages.append(Notice("warning", text))

    def facts(self, snapshot: Snapshot, remote: str) -> tuple[MachineFacts, ...]:
        """Return what the machines know of a snapshot, whose tree is in the remote. All are asked at a time.

        A machine that did not get the project tells only that. Another machine that cannot answer, or does not in
        `FACTS_SECONDS`, is left out, and a notice of `wait` says why.
        """
        facts: dict[str, MachineFacts] = {}
        pending, until = set(self._connections), monotonic() + FACTS_SECONDS
        self._unasked.clear()
        for connection in self._connections.values():
            connection.peer.send(FactsRequest(snapshot, remote))
        while (pending := pending & self._connections.keys()) and (left := until - monotonic()) > 0:
            for machine, message in self._receive(min(left, BEAT_SECONDS)):
                if isinstance(message, MachineFacts):
                    facts[machine] = message
                elif isinstance(message, FactsFailed) and message.lacks_project:
                    facts[machine] = MachineFacts(machine, problem=_format_error(message.failure))
                else:
                    self._note(machine, message)
                if isinstance(message, MachineFacts | FactsFailed):
                    pending.discard(machine)
        for machine in sorted(pending & self._connections.keys()):
            why = f"it has not told its facts in {FACTS_SECONDS:g} s; see what its agent prints"
            self._messages.append(Notice("warning", f"machine {machine} takes no part yet: {why}"))
        return tuple(facts[name] for name in self._connections if name in facts)

    def start(self, order: Order, machine: str) -> None:
        """Send an order to a machine; return at once. `Built`, `Failed`, `Refused` or `Lost` follows, exactly once."""
        if connection := self._connections.get(machine):
            self._running.add((machine, order.stage))
            connection.peer.send(order)
        else:
            self._messages.append(Lost(order.stage, machine, "it is not connected any more", started=False))

    def wait(self, timeout: float) -> list[FleetMessage]:
        """Return the messages since the last call; wait for the first or for `wake`, `timeout` seconds at most."""
        until = monotonic() + timeout
        self._gather()
        while not self._messages and not self._woken and (left := until - monotonic()) > 0:
            self._gather(min(left, BEAT_SECONDS))
        self._woken = False
        messages = list(self._messages)
        self._messages.clear()
        return messages

    def wake(self) -> None:
        """End the present or next `wait`. Any thread may call this."""
        self._woken = True
        self._waker.wake()

    def cancel(self, stage: str) -> None:
        """Stop a stage; its last message follows. Do nothing if it is not running."""
        for machine, running in self._running:
            if running == stage and (connection := self._connections.get(machine)):
                connection.peer.send(Cancel(stage))

    def close(self) -> None:
        """Stop all stages and let go of the machines. May be called again."""
        self.beater.stop()
        self._directory.close()
        self._connector.close()
        for connection in self._connections.values():
            connection.peer.send(Close())
            connection.peer.close()
        self._connections.clear()
        self._selector.close()
        self._waker.close()

    def _gather(self, timeout: float = 0.0) -> None:
        """Note what has arrived; wait for the first message."""
        for machine, message in self._receive(timeout):
            self._note(machine, message)

    def _receive(self, timeout: float) -> list[tuple[str, Message]]:
        """Return what has arrived, and by which machine; wait for the first message."""
        self._welcome()
        for connection in self._connections.values():
            connection.peer.flush()
        ready = [key.data for key, _ in self._selector.select(timeout)]
        if None in ready:
            self._waker.drain()  # `wake` was called, or a connection was made
        messages: list[tuple[str, Message]] = []
        for name in filter(None, ready):
            connection, why = self._connections[name], ""
            try:
                messages += [(name, message) for message in connection.drain()]
            except UsageError as error:
                why = error.problem
            if why or connection.peer.closed:
                messages += self._lose(name, why or "its agent has ended")
        for name, connection in list(self._connections.items()):
            if connection.peer.is_silent(self._lease):
                messages += self._lose(name, f"nothing was heard of it for {self._lease:g} s")
        return messages

    def _note(self, machine: str, message: Message) -> None:
        if isinstance(message, PASSED):
            self._messages.append(message)
        elif isinstance(message, LAST) and (machine, message.stage) in self._running:
            self._running.discard((machine, message.stage))
            self._messages.append(message)
        elif isinstance(message, Leaving):
            if connection := self._connections.get(machine):
                connection.leaving = True
                self._messages.append(Leaving(machine))
        elif isinstance(message, MachineFacts):  # the answer of a machine that has joined
            if connection := self._connections.get(machine):
                self._messages.append(Joined(connection.machine, message))
        elif isinstance(message, FactsFailed):
            self._messages.append(
                Notice("warning", f"machine {machine} takes no part: {_format_error(message.failure)}")
            )

    def _lose(self, name: str, why: str) -> list[tuple[str, Message]]:
        """Let go of a machine; return the last message of each of its stages."""
        connection = self._connections.pop(name)
        self._selector.unregister(connection.peer)
        connection.peer.close()
        stages = sorted(stage for machine, stage in self._running if machine == name)
        return [(name, Lost(stage, name, why)) for stage in stages]


def _format_error(error: UsageError | Failure) -> str:
    """Return an error as one line: `problem: reason (hint: what to do)`."""
    return ": ".join(filter(None, (error.problem, error.why))) + (f" (hint: {error.hint})" if error.hint else "")


def connect(url: str, environment: Mapping[str, str] = os.environ) -> SocketFleet:
    """Return the fleet of the agents at some addresses, separated by commas.

    Args:
        url: `unix:///run/orun.sock,tcp://10.0.0.7:7777`.
        environment: has the token of agents over TCP in `$ORUN_AGENT_TOKEN`.

    Raises:
        UsageError: if no agent can be used, because of the first that cannot.
    """
    addresses = [Address.parse(part, environment.get(AGENT_TOKEN, "")) for part in url.split(",")]
    return SocketFleet(GivenAddresses({str(address): address for address in addresses}))
