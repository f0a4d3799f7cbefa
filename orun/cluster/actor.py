"""Actor on an agent's machine: says where the agent is, as long as the agent is a member of the cluster."""

from __future__ import annotations

POLL = 5.0  # seconds between two looks at the head and the actor
PATIENCE = 15.0  # seconds without an answer, after which the other side counts as lost


class Listing:
    """Address of an agent, in an actor named after its machine.

    Args:
        url: of the agent.
        token: what runs must know to use it.
    """

    def __init__(self, url: str, token: str) -> None:
        self._place = (url, token)

    def place(self) -> tuple[str, str]:
        """Return the URL and the token."""
        return self._place
