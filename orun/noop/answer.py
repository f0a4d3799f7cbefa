"""Answer to a request from its no-op record, when there is nothing to do but to restore what was touched."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from orun.core.events import Notice
from orun.core.run_record import RunResult
from orun.environment.call_cache import forget
from orun.eventlog import Listener, forward_activities
from orun.noop.check import NoopRecord, Request, find_record, replay
from orun.remote.options import FLEET, Remote
from orun.store.layout import is_writable, locate_store
from orun.text.api_arguments import PathLike, format_values


def build_request(
    file: object,
    values: Mapping[str, Any] | None,
    store: PathLike | None,
    remote: Remote | None,
    executor: object,
    *,
    strict: bool,
) -> Request | None:
    """Return the request that a no-op record may answer; None if the caller brings a pipeline or fleet of its own.

    Args:
        file: path of the pipeline file, or a loaded pipeline.
        values: values that replace those of the file.
        store: the store's folder; see `locate_default_store`.
        remote: the remote that was named.
        executor: URL of a fleet, a fleet, or None for what `$ORUN_ON` says.
        strict: whether every gate must pass.
    """
    fleet = os.environ.get(FLEET, "") if executor is None else executor
    if not (isinstance(file, str | os.PathLike) and isinstance(fleet, str)):
        return None
    forget()  # before the no-op record is read
    path = Path(file).absolute()
    root = locate_store(store, path.parent).absolute()
    return Request(root, path, format_values(values), remote, strict, fleet)


def answer(request: Request, reports: Collection[Path], listener: Listener, started_at: float) -> RunResult | None:
    """Replay the last run of a request; None if the planner must decide.

    Reports are written after the run: where they may replace an input, the planner knows for sure.
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
