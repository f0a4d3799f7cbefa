"""Fleet of the agents that have joined a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from orun.agent.address import Address
from orun.agent.client import SocketFleet
from orun.cluster.messages import Message
from orun.cluster.program import Program
from orun.cluster.settings import build_environment, parse_address

ANSWER_PATIENCE = 60.0  # seconds for an answer; the end of the head is noticed sooner


class ClusterDirectory:
    """Directory of the agents in a cluster. Satisfies `orun.agent.address.Directory`.

    Raises:
        UsageError: if Ray or the token is missing here.
        HeadError: if the head cannot be used; that is raised by `find`, too.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._agents: Mapping[str, Address] = {}
        self._folder = TemporaryDirectory(prefix="orun-ray-")
        try:
            log = Path(self._folder.name, "lister.log")
            self._lister = Program("orun.cluster.lister", address, (), log, build_environment())
        except BaseException:
            self._folder.cleanup()
            raise

    def find(self, *, wait: bool) -> Mapping[str, Address]:
        """See `Directory`."""
        while message := self._lister.poll():
            self._take(message)
        self._lister.tell("")
        if wait:
            self._take(self._lister.answer(ANSWER_PATIENCE))
        return self._agents

    def _take(self, message: Message) -> None:
        agents = message.agents or {}
        self._agents = {f"{name} of {self._address}": Address.parse(*place) for name, place in agents.items()}

    def close(self) -> None:
        """See `Directory`. May be called again."""
        self._lister.close()
        self._folder.cleanup()


def connect(url: str) -> SocketFleet:
    """Return the fleet of a cluster.

    Raises:
        UsageError: if Ray or the token is missing here, or agents are there and none can be used.
        HeadError: if the head cannot be used.
    """
    return SocketFleet(ClusterDirectory(parse_address(url)))
