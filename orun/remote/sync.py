"""Remote of one run: downloads results before stages run, uploads new results in the background.

A stage that is not up to date is looked for in the remote. Its records are validated here, because only this machine
knows what the stage would read. When the remote fails, the run warns once and continues without it, unless the remote
is required.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from orun.core.events import Event, Notice
from orun.environment.env_vars import SHARED_KEY, SIGNING_KEY
from orun.errors import Interrupted
from orun.fs.digests import is_digest
from orun.planning.plan import Step
from orun.planning.planner import Planner
from orun.remote.connection import Connection
from orun.remote.download import Downloads
from orun.remote.known_results import KnownResults
from orun.remote.settings import Settings
from orun.remote.upload import Uploads
from orun.store import Action
from orun.text.counts import count
from orun.text.units import show

if TYPE_CHECKING:
    from orun.core.machines import Built

HELD_BACK = f"set {SHARED_KEY} to share these results, or list the variables under `env` of the stage"
# CI systems set a secret to an empty value where it is not available, as in a pull request from a fork.
UNSIGNED = f"{SHARED_KEY} is empty: what is in the remote is believed, whoever wrote it"


class Sync:
    """Downloads and uploads of one run.

    Args:
        settings: address and mode of the remote.
        planner: decides what is up to date.
        emit: takes notices.
        wake: called by another thread when a transfer has ended.
    """

    def __init__(
        self,
        settings: Settings,
        planner: Planner,
        emit: Callable[[Event], None],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._planner = planner
        self._connection = Connection(settings, emit, wake)
        if not settings.trusted and os.environ.get(SHARED_KEY) == "":
            signs = settings.mode == "read" or os.environ.get(SIGNING_KEY)
            emit(Notice("warning", UNSIGNED if signs else f"{UNSIGNED}, and what is pushed is unsigned"))
        known = KnownResults(planner.store.root, settings)
        self._downloads = Downloads(self._connection, planner, known)
        self._uploads = Uploads(self._connection, planner, known)

    @property
    def url(self) -> str:
        """Address of the remote."""
        return self._connection.settings.url

    @property
    def complete(self) -> bool:
        """Whether every result that should be in the remote is."""
        return self._uploads.complete

    def leave(self, stages: Collection[str]) -> None:
        """Leave the artifacts of these stages in the remote from now on: only their records are fetched."""
        self._downloads.left = frozenset(stages)
        self._planner.results.in_remote = self._downloads.checked

    def fetch_models(self, steps: Iterable[Step]) -> None:
        """Fetch the accepted models that stages compare with, if they are not in the store.

        Raises:
            RemoteError: if the remote fails and is required.
            Interrupted: if the user does not wait.
        """
        models = {step.stage.id: self._planner.lacks(step.stage) for step in steps}  # a file of the user's names them
        try:
            self._downloads.fetch_models({name: model for name, model in models.items() if is_digest(model)})
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None

    def wants(self, step: Step) -> bool:
        """Return whether to look for a stage's result before it runs."""
        return self._downloads.wants(step)

    @property
    def full(self) -> bool:
        """Whether no more results may be looked for at present."""
        return self._downloads.full

    def fetch(self, step: Step) -> bool:
        """Continue the download of a stage's result; return whether it has ended. Never waits."""
        return self._downloads.fetch(step)

    def is_fetched(self, step: Step) -> bool:
        """Return whether the result of a stage came from the remote in this run."""
        return self._downloads.is_fetched(step)

    def wait(self, timeout: float) -> None:
        """Wait until an operation has ended, at most so many seconds."""
        self._connection.wait(timeout)

    def push(self, step: Step, action: Action, *, new: bool) -> None:
        """Start to push a result if the remote needs it. Never waits."""
        self._uploads.push(step, action, new=new)

    def share(self, step: Step, action: Action, *, repair: bool = False) -> str:
        """Start to push a result that other machines need; return why it cannot be pushed. Never waits.

        With `repair` it is pushed although it is there: it did not arrive elsewhere.
        """
        return self._uploads.share(step, action, repair=repair)

    def is_shared(self, action: Action) -> bool:
        """Return whether a result is known to be in the remote."""
        return self._uploads.is_shared(action)

    def take(self, step: Step, built: Built) -> bool:
        """Continue to fetch a result that another machine has built; return whether that has ended. Never waits."""
        return self._downloads.take(step, built)

    def arrived(self, step: Step) -> Action | None:
        """Return the result that `take` has fetched; None if it did not arrive, or is not accepted."""
        return self._downloads.arrived(step)

    def gather(self) -> None:
        """Take note of the pushes that have ended. Never waits."""
        self._uploads.gather()

    def finish(self) -> None:
        """Wait for all pushes, and report the traffic.

        Raises:
            RemoteError: if a push failed and the remote is required.
            Interrupted: if the user does not wait.
        """
        uploads, emit = self._uploads, self._connection.emit
        try:
            uploads.drain()
        except KeyboardInterrupt:
            text = f"{count(uploads.pending, 'result')} not pushed to the remote; the next run offers them again"
            emit(Notice("warning", text))
            raise Interrupted("interrupted") from None
        finally:
            self.close()
        if uploads.held_back:
            stages = "; ".join(f"{name}: {', '.join(names)}" for name, names in uploads.held_back.items())
            text = f"not pushed, because digests of variables' values could be guessed ({stages}); {HELD_BACK}"
            emit(Notice("info", text))
        directions = ((self._downloads, "fetched"), (uploads, "pushed"))
        if traffic := [f"{way.results} {verb} ({show(way.size, 'B')})" for way, verb in directions if way.results]:
            emit(Notice("info", f"remote {self._connection.settings.url}: {', '.join(traffic)}"))

    def close(self) -> None:
        """End all transfers without waiting for them."""
        self._uploads.abandon()
        self._connection.close()
