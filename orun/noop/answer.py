"""Answer to a request from its no-op record, when there is nothing to do but to restore what was touched."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from orun.core.events import Notice
from orun.core.run_record import RunResult
from orun.eventlog import Listener, forward_activities
from orun.noop.check import NoopRecord, Request, find_record, replay
from orun.store.layout import is_writable


def answer(request: Request, reports: Collection[Path], listener: Listener, started_at: float) -> RunResult | None:
    """Replay the last run of a request; None if the planner must decide.

    Args:
        request: the request.
        reports: files that are written after the run. Where they may replace an input, the planner knows for sure.
        listener: called with each event.
        started_at: when the run began.
    """
    record = find_record(request)
    if not (record and _machines_are_unchanged(record, listener)):
        return None
    if reports:
        from orun.noop.overwrites import may_concern

        if may_concern(reports, record, request):
            return None
    if record.in_place:
        return replay(request, record, listener, started_at, _list_notices(record))
    if not is_writable(request.store):
        return None
    from orun.noop.restore import restore

    return restore(request, record, listener, started_at)


def _machines_are_unchanged(record: NoopRecord, listener: Listener) -> bool:
    """Return whether the other machines of a recorded run have the facts of then, if there were any."""
    if not (state := record.data.get("fleet")):
        return True
    from orun.noop.fleet_check import is_unchanged

    with forward_activities(listener):
        return is_unchanged(state)


def _list_notices(record: NoopRecord) -> list[Notice]:
    """Return a notice that machines have the facts of then, if the record is of a run on several."""
    if state := record.data.get("fleet"):
        return [Notice("info", f"the machines at {state['url']} have the facts that the results depend on")]
    return []
