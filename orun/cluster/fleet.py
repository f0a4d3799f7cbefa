"""Fleet of the agents that have joined a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from orun.agent.address import Address
from orun.agent.client import SocketFleet
from orun.cluster.program import Relay
from orun.cluster.settings import address_of
from orun.core.events import Notice
from orun.core.machines import Lost, Machine, MachineFacts, Order, Snapshot
from orun.core.serialization import replace
from orun.runner.fleet import FleetMessage


class RayFleet:
    """Fleet of a cluster. Satisfies `orun.runner.fleet.Fleet`.

    Args:
        url: `ray://HOST:PORT` of the head.

    Raises:
        UsageError: if Ray or the token is missing here.
        HeadError: if the head cannot be used.
    """

    def __init__(self, url: str) -> None:
        self._address = address_of(url)
        self._folder = TemporaryDirectory(prefix="orun-ray-")
        self._seen: set[str] = set()  # sockets of agents that were connected to
        self._notices: list[FleetMessage] = []
        try:
            self._relay = Relay(self._address, Path(self._folder.name))
        except BaseException:
            self._folder.cleanup()
            raise
        self._agents = SocketFleet()

    def machines(self) -> tuple[Machine, ...]:
        """Return the machines that are there now; look for those that joined or left.

        A machine that cannot be used is left out, and a notice of `wait` says why.

        Raises:
            UsageError: if no machine can be used, because of the first that cannot.
            HeadError: if the head has ended.
        """
        new = {name: path for name, path in self._relay.sockets().items() if path not in self._seen}
        self._seen |= set(new.values())
        places = {f"{name} of {self._address}": Address(path=path) for name, path in new.items()}
        problems = self._agents.add_all(places)
        machines = self._agents.machines()
        if problems and not machines:
            raise problems[0]
        self._notices += [Notice("warning", ": ".join(filter(None, (error.what, error.why)))) for error in problems]
        return machines

    def look(self, snapshot: Snapshot, remote: str) -> None:
        """Begin to look for machines that joined since the last look; `Joined` follows for each.

        Raises:
            HeadError: if the head has ended.
        """
        for machine, path in self._relay.last_sockets().items():
            if path not in self._seen:
                self._seen.add(path)
                self._agents.begin(Address(path=path), f"{machine} of {self._address}")
        self._agents.look(snapshot, remote)

    def facts(self, snapshot: Snapshot, remote: str) -> tuple[MachineFacts, ...]:
        """Return what the machines know of a snapshot, whose tree is in the remote of that URL."""
        return self._agents.facts(snapshot, remote)

    def start(self, order: Order, machine: str) -> None:
        """Send an order to a machine; return at once."""
        self._agents.start(order, machine)

    def wait(self, timeout: float) -> list[FleetMessage]:
        """Return the messages since the last call; wait for the first or for `wake`, `timeout` seconds at most."""
        messages = self._notices + self._agents.wait(0.0 if self._notices else timeout)
        self._notices = []
        return [
            replace(message, why=self._relay.lost.get(message.machine, message.why))
            if isinstance(message, Lost)
            else message
            for message in messages
        ]

    def wake(self) -> None:
        """End the present or next `wait`."""
        self._agents.wake()

    def cancel(self, stage: str) -> None:
        """Stop a stage; its last message follows."""
        self._agents.cancel(stage)

    def close(self) -> None:
        """Stop all stages and let go of the machines. May be called again."""
        self._agents.close()
        self._relay.close()
        self._folder.cleanup()
