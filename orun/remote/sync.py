"""The remote of one run, as the runner sees it.

A stage that is not up to date here is asked for there: its records are looked at here, where it is known what the stage
would read; then the files that are missing come. A result that was made here goes there in the background. When the
remote fails, the run says so once and goes on without it, unless it is required.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from orun.core.events import Event, Notice
from orun.environment.env_vars import SHARED_KEY, SIGNING_KEY
from orun.errors import Interrupted
from orun.fs.digests import is_digest
from orun.planning.plan import Step
from orun.planning.planner import Planner
from orun.remote.connection import Link
from orun.remote.download import Intake
from orun.remote.known_results import Ledger
from orun.remote.settings import Settings
from orun.remote.upload import Outgo, count
from orun.store import Action
from orun.text.units import show

HELD_BACK = f"set {SHARED_KEY} to share these results, or list the variables under `env` of the stage"
# As CI systems have it where a secret is not to be had, in a pull request from a fork.
EVERYBODY = f"{SHARED_KEY} is empty: what is in the remote is believed, whoever wrote it"


class Exchange:
    """What comes and goes.

    Args:
        settings: where the remote is, and what for.
        planner: decides what is up to date.
        emit: takes notices.
    """

    def __init__(self, settings: Settings, planner: Planner, emit: Callable[[Event], None]) -> None:
        self._planner = planner
        self._link = Link(settings, emit)
        if not settings.trusted and os.environ.get(SHARED_KEY) == "":
            signs = settings.mode == "read" or os.environ.get(SIGNING_KEY)
            emit(Notice("warning", EVERYBODY if signs else f"{EVERYBODY}, and what is pushed is unsigned"))
        ledger = Ledger(planner.store.root, settings.url)
        self._intake = Intake(self._link, planner, ledger)
        self._outgo = Outgo(self._link, planner, ledger)

    @property
    def complete(self) -> bool:
        """Whether every result that should be in the remote is."""
        return self._outgo.complete

    def prepare(self, steps: Iterable[Step]) -> None:
        """Bring the accepted models that stages compare with, and that are not here.

        Raises:
            RemoteError: when the remote fails and is required.
            Interrupted: when the user does not wait for it.
        """
        models = {step.stage.id: self._planner.lacks(step.stage) for step in steps}  # a file of the user's names them
        try:
            self._intake.bring({name: model for name, model in models.items() if is_digest(model)})
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None

    def wants(self, step: Step) -> bool:
        """Whether a stage that would run is to be asked for first; see `Intake.wants`."""
        return self._intake.wants(step)

    def fetch(self, step: Step) -> bool:
        """Go on asking for the result of a stage; see `Intake.fetch`."""
        return self._intake.fetch(step)

    def brought(self, step: Step) -> bool:
        """Whether the result of a stage came from the remote in this run."""
        return self._intake.brought(step)

    def wait(self, timeout: float) -> None:
        """Wait for an answer, at most so many seconds."""
        self._link.wait(timeout)

    def push(self, step: Step, action: Action, *, new: bool) -> None:
        """Begin to give a result to the remote; see `Outgo.push`."""
        self._outgo.push(step, action, new=new)

    def gather(self) -> None:
        """Hear how pushes went; see `Outgo.gather`."""
        self._outgo.gather()

    def finish(self) -> None:
        """Wait until everything is there, and say what went over.

        Raises:
            RemoteError: when something did not get there and the remote is required.
            Interrupted: when the user does not wait for it.
        """
        try:
            self._outgo.drain()
        except KeyboardInterrupt:
            text = f"{count(self._outgo.pending)} not pushed to the remote; the next run offers them again"
            self._link.emit(Notice("warning", text))
            raise Interrupted("interrupted") from None
        finally:
            self.close()
        ways = ((self._intake, "fetched"), (self._outgo, "pushed"))
        if self._outgo.held_back:
            stages = "; ".join(f"{name}: {', '.join(names)}" for name, names in self._outgo.held_back.items())
            text = f"not pushed, because digests of variables' values could be guessed ({stages}); {HELD_BACK}"
            self._link.emit(Notice("info", text))
        told = [f"{way.results} {word} ({show(way.size, 'B')})" for way, word in ways if way.results]
        if told:
            self._link.emit(Notice("info", f"remote {self._link.settings.url}: {', '.join(told)}"))

    def close(self) -> None:
        """End every transfer; what is not there by now comes or goes another time."""
        self._outgo.abandon()
        self._link.close()
