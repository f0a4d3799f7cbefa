"""Push of stored results to a remote outside of a run."""

from __future__ import annotations

from collections.abc import Iterable

from orun.core.events import Event, Notice
from orun.planning.plan import Step
from orun.planning.planner import Planner
from orun.remote.settings import Settings
from orun.remote.sync import Exchange


def give(settings: Settings, planner: Planner, steps: Iterable[Step]) -> tuple[str, ...]:
    """Give the results of stages that are up to date to a remote, if it lacks them.

    Args:
        settings: where the remote is; nothing goes to one that is only read.
        planner: of the pipeline.
        steps: the stages; those that are not up to date are passed over.

    Returns:
        What the user should know: what went, or why it did not.

    Raises:
        RemoteError: when something did not get there and the remote is required.
        Interrupted: when the user does not wait for it.
    """
    told: list[str] = []

    def tell(event: Event) -> None:
        if isinstance(event, Notice):
            told.append(event.text)

    exchange = Exchange(settings, planner, tell)
    try:
        for step in steps:
            if step.hit:
                exchange.push(step, step.hit, new=False)
        exchange.finish()
    finally:
        exchange.close()
    return tuple(told)
