"""Connection of one run to its remote, and the rule for a remote that fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orun.core.events import Event, Notice
from orun.environment.secret_variables import Secrets
from orun.errors import RemoteError
from orun.executors.masking import Mask
from orun.remote.client import BrokenError, Client
from orun.remote.settings import Settings

Message = dict[str, Any]
Doing = Literal["read", "written"]


class TroubleError(Exception):
    """The remote could not do what it was asked for: `kind` is that of the agent's answer."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


Failure = TroubleError | BrokenError


@dataclass
class Link:
    """Asks the process that transfers.

    Attributes:
        settings: where the remote is, and what for.
        emit: takes notices.
        state: `usable`, `read` when it takes nothing more, or `down`.
    """

    settings: Settings
    emit: Callable[[Event], None]
    state: Literal["usable", "read", "down"] = "usable"

    def __post_init__(self) -> None:
        self._client = Client(self.settings)

    def ask(self, message: Message) -> int:
        """Send a request; the number to get its answer by."""
        return self._client.ask(message)

    def answer(self, number: int) -> Any:
        """The answer to a request, once; None while it is not there.

        Raises:
            TroubleError: when the remote could not do it.
            BrokenError: when no answer will ever come.
        """
        answer: Mapping[str, Any] | None = self._client.answer(number)
        if answer is None:
            return None
        if "error" in answer:
            raise TroubleError(answer["error"], Mask.of(Secrets()).text(answer["text"]))
        return answer["answer"]

    def wait(self, timeout: float) -> None:
        """Wait for an answer, at most so many seconds."""
        self._client.wait(timeout)

    def close(self) -> None:
        """End every transfer, whatever is under way."""
        self._client.close()

    def fail(self, error: Failure, what: str, doing: Doing) -> None:
        """Say what failed, and go on with less.

        Args:
            error: what went wrong.
            what: what it was about: the name of a stage.
            doing: what was done with the remote.

        Raises:
            RemoteError: when the remote is required.
        """
        kind = error.kind if isinstance(error, TroubleError) else "broken"
        if kind in {"here", "refused"}:
            way = "fetched from" if doing == "read" else "pushed to"
            self.emit(Notice("warning", f"{what}: not {way} the remote: {error}"))
            return
        words = {"denied": doing, "unreachable": "reached", "broken": f"{doing}: the process that transfers broke"}
        text = f"the remote {self.settings.url} cannot be {words[kind]}"
        if self.settings.required:
            self.close()
            hint = "See that it is there and lets you in, or go on without it: --remote off"
            raise RemoteError(text, why=str(error), hint=hint)
        before = self.state
        if before == "usable" or doing == "read":
            self.state = "read" if kind == "denied" and doing == "written" else "down"
        if self.state != before:
            without = "the run goes on without it"
            if self.state == "read":
                without = "nothing more is pushed, as with --remote-mode read"
            self.emit(Notice("warning", f"{text}; {without}: {error}"))
