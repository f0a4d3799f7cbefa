"""Push of stored results to a remote outside of a run."""

from __future__ import annotations

from collections.abc import Iterable

from orun.core.events import Event, Notice
from orun.planning.plan import Step
from orun.planning.planner import Planner
from orun.remote.settings import Settings
from orun.remote.sync import Sync


def push_results(settings: Settings, planner: Planner, steps: Iterable[Step]) -> tuple[str, ...]:
    """Push the results of the stages that are up to date, if the remote lacks them and is not only read.

    Returns:
        Texts for the user: what was pushed, or why not.

    Raises:
        RemoteError: if a push failed and the remote is required.
        Interrupted: if the user does not wait.
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
