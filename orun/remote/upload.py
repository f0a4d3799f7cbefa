"""Upload of a run's results to its remote, in the background."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

from orun.core.events import Notice
from orun.core.serialization import encode
from orun.environment.env_vars import SHARED_KEY
from orun.planning.plan import Step
from orun.planning.planner import Planner
from orun.remote.artifacts import list_pieces
from orun.remote.connection import FAILURES, Connection
from orun.remote.known_results import KnownResults
from orun.remote.transfers import Pushed, Transfers
from orun.remote.variables import key_states, list_held_back
from orun.store import Action
from orun.store.checksummed_json import encode_canonical
from orun.text.counts import count

POLL_SECONDS = 0.05
SILENCE = 1.0  # seconds that the end of a run waits for uploads before it says so


@dataclass
class Uploads:
    """Uploads of one run."""

    connection: Connection
    planner: Planner
    known: KnownResults  # to be in the remote
    results: int = 0  # how many were pushed
    size: int = 0  # bytes that were sent
    complete: bool = True  # whether every result that should be in the remote is
    held_back: dict[str, tuple[str, ...]] = field(default_factory=dict)  # variables that keep results of a stage here
    _pushes: list[tuple[Future[Pushed], Action]] = field(default_factory=list)
    _failed: list[Action] = field(default_factory=list)

    @property
    def pending(self) -> int:
        """Results that are on their way."""
        return len(self._pushes)

    def push(self, step: Step, action: Action, *, new: bool) -> None:
        """Start to push a result if the remote accepts it and is not known to have it. Never waits.

        A new result is always pushed: had the remote a whole one, it would have been fetched.
        """
        spec = self.planner.pipeline.kinds[step.stage.uses].spec
        if self.connection.settings.mode == "read" or spec.stage_class == "measurement":
            return
        if not new and action in self.known:
            return
        if names := list_held_back(action):
            self.held_back[action.stage] = tuple(sorted(names))
            return
        if self.connection.state != "usable":
            self.complete = False
            return
        self._submit(action)

    def share(self, step: Step, action: Action, *, repair: bool = False) -> str:
        """Start to push a result that other machines need, whatever its kind; return why it cannot be. Never waits.

        With `repair` it is pushed although the remote is known to have it: it did not arrive elsewhere.
        """
        name = step.stage.id
        if self._is_pending(action) or (self.is_shared(action) and not repair):
            return ""
        if self.connection.settings.mode == "read":
            return f"its input {name} is on this machine only, and the remote is only read"
        if names := list_held_back(action):
            return f"its input {name} depends on the values of {', '.join(sorted(names))}, and {SHARED_KEY} is not set"
        if self.connection.state != "usable" or action in self._failed:
            return f"its input {name} could not be pushed to the remote"
        self._submit(action, repair=repair)
        return ""

    def is_shared(self, action: Action) -> bool:
        """Return whether a result is known to be in the remote."""
        return action in self.known and not self._is_pending(action)

    def _is_pending(self, action: Action) -> bool:
        return any(pending == action for _, pending in self._pushes)

    def _submit(self, action: Action, *, repair: bool = False) -> None:
        pieces = list_pieces(self.planner.store, action.tree, action.log)
        push = partial(Transfers.push, key=action.key, record=encode_record(action), pieces=pieces, repair=repair)
        self._pushes.append((self.connection.submit(push), action))

    def gather(self) -> None:
        """Take note of the pushes that have ended. Never waits.

        Raises:
            RemoteError: if one failed and the remote is required.
        """
        ended = [push for push in self._pushes if push[0].done()]
        for push in ended:
            self._pushes.remove(push)
            future, action = push
            error = future.exception()  # not raised here: its traceback would keep this frame, and the store, alive
            if isinstance(error, FAILURES):
                self.complete = False
                self._failed.append(action)
                self.connection.fail(error, action.stage, "written")
            else:
                self._note(action, future.result())

    def _note(self, action: Action, pushed: Pushed) -> None:
        self.known.add(action)
        self.size += pushed.sent
        if pushed.tree == action.tree:
            self.results += 1
            return
        text = f"{action.stage}: the remote has another result of the same inputs, which came first and stays"
        self.connection.emit(Notice("info", text))

    def drain(self) -> None:
        """Wait for every push.

        Raises:
            RemoteError: if one failed and the remote is required.
        """
        silent_until = monotonic() + SILENCE
        self.gather()
        while self._pushes:
            if monotonic() > silent_until:
                silent_until = float("inf")
                text = f"pushing {count(self.pending, 'result')} to the remote {self.connection.settings.url}"
                self.connection.emit(Notice("info", text))
            self.connection.wait(POLL_SECONDS)
            self.gather()

    def abandon(self) -> None:
        """Give up the pushes that have not ended; the next run offers them again."""
        self.complete = self.complete and not self._pushes
        self._pushes.clear()


def encode_record(action: Action) -> bytes:
    """Return the record of a result as it is pushed."""
    return encode_canonical(encode(key_states(action)))
