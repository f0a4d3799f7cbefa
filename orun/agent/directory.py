"""Directory of a fleet: where its agents are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from orun.agent.address import Address


class Directory(Protocol):
    """Directory of the agents of a fleet."""

    def find(self, *, wait: bool) -> Mapping[str, Address]:
        """Return the address of each agent by the place that messages name, as of now or, without waiting, of late."""

    def close(self) -> None:
        """Look for no more agents."""


@dataclass
class GivenAddresses:
    """Directory of agents that a user names."""

    addresses: Mapping[str, Address]  # by the places that messages name

    def find(self, *, wait: bool) -> Mapping[str, Address]:
        """See `Directory`."""
        del wait
        return self.addresses

    def close(self) -> None:
        """See `Directory`."""
