"""Remote of one run: downloads results before stages run, uploads new results in the background.

A stage that is not up to date is looked for in the remote. Its records are validated here, because only this machine
knows what the stage would read. When the remote fails, the run warns once and continues without it, unless the remote
is required.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable

from orun.core.events import Event, Notice
from orun.environment.env_vars import SHARED_KEY, SIGNING_KEY
from orun.fs.digests import is_digest
from orun.planning.plan import Step
from orun.planning.planner import Planner
from orun.remote.connection import Connection
from orun.remote.download import Downloads
from orun.remote.known_results import KnownResults
from orun.remote.settings import Settings
from orun.remote.trust import read_keyring
from orun.remote.upload import Uploads
from orun.text.counts import count
from orun.text.units import show

HELD_BACK = f"set {SHARED_KEY} to share these results, or list the variables under `env` of the stage"
UNTRUSTED = (
    f"{SIGNING_KEY} belongs to none of the project's trusted-keys, so readers refuse what is pushed; "
    "list its public key there: openssl pkey -in orun-signing.pem -pubout"
)
# CI systems set a secret to an empty value where it is not available, as in a pull request from a fork.
UNSIGNED = f"{SHARED_KEY} is empty: what is in the remote is believed, whoever wrote it"


class Sync:
    """Remote of one run. `wake` is called by another thread when a transfer has ended."""

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
        if settings.trusted and settings.mode == "read-write":
            keys = read_keyring(settings.trusted)
            if keys.verify(b"", keys.sign(b"")):
                emit(Notice("warning", UNTRUSTED))
        known = KnownResults(planner.store.root, settings)
        self.downloads = Downloads(self._connection, planner, known)
        self.uploads = Uploads(self._connection, planner, known)

    @property
    def url(self) -> str:
        """Address of the remote."""
        return self._connection.settings.url

    def leave(self, stages: Collection[str]) -> None:
        """Leave the artifacts of these stages in the remote from now on: only their records are fetched."""
        self.downloads.left = frozenset(stages)
        self._planner.results.in_remote = self.downloads.checked

    def fetch_models(self, steps: Iterable[Step]) -> None:
        """Fetch the accepted models that stages compare with, if they are not in the store.

        Raises:
            RemoteError: if the remote fails and is required.
        """
        models = {
            step.stage.id: self._planner.find_missing_model(step.stage) for step in steps
        }  # a file of the user's names them
        self.downloads.fetch_models({name: model for name, model in models.items() if is_digest(model)})

    def wait(self, timeout: float) -> None:
        """Wait until an operation has ended, at most so many seconds."""
        self._connection.wait(timeout)

    def finish(self) -> None:
        """Wait for all pushes, and report the traffic.

        Raises:
            RemoteError: if a push failed and the remote is required.
            KeyboardInterrupt: if the user does not wait; a notice says how much was not pushed.
        """
        uploads, emit = self.uploads, self._connection.emit
        try:
            uploads.drain()
        except KeyboardInterrupt:
            text = f"{count(uploads.pending, 'result')} not pushed to the remote; the next run offers them again"
            emit(Notice("warning", text))
            raise
        finally:
            self.close()
        if uploads.held_back:
            stages = "; ".join(f"{name}: {', '.join(names)}" for name, names in uploads.held_back.items())
            text = f"not pushed, because digests of variables' values could be guessed ({stages}); {HELD_BACK}"
            emit(Notice("info", text))
        directions = ((self.downloads, "fetched"), (uploads, "pushed"))
        if traffic := [f"{way.results} {verb} ({show(way.size, 'B')})" for way, verb in directions if way.results]:
            emit(Notice("info", f"remote {self._connection.settings.url}: {', '.join(traffic)}"))

    def close(self) -> None:
        """End all transfers without waiting for them."""
        self.uploads.abandon()
        self._connection.close()


def push_results(settings: Settings, planner: Planner, steps: Iterable[Step]) -> tuple[str, ...]:
    """Push the results of the stages that are up to date, if the remote lacks them and is not only read.

    Returns:
        Texts for the user: what was pushed, or why not.

    Raises:
        RemoteError: if a push failed and the remote is required.
        KeyboardInterrupt: if the user does not wait.
    """
    texts: list[str] = []

    def collect(event: Event) -> None:
        if isinstance(event, Notice):
            texts.append(event.text)

    sync = Sync(settings, planner, collect)
    try:
        for step in steps:
            if step.cached_action:
                sync.uploads.push(step, step.cached_action, new=False)
        sync.finish()
    finally:
        sync.close()
    return tuple(texts)
