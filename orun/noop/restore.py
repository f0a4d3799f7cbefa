"""Restore of output checkouts, without reading the pipeline.

Nothing that the recorded result depends on has changed, but objects or checkouts were touched: most often, outputs were
deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from orun.core.events import Notice
from orun.core.run_record import RunResult
from orun.eventlog import Listener
from orun.fs.durable import replace_file
from orun.noop.check import NoopRecord, Request, build_snapshot, replay
from orun.store import Store
from orun.store.checksummed_json import encode_checksummed


def restore(request: Request, record: NoopRecord, listener: Listener, started_at: float) -> RunResult | None:
    """Restore every output checkout, and replay the run.

    Returns:
        The result; None if an object is missing or damaged, for the planner to find.

    Raises:
        StoreError: when the store cannot be used.
    """
    artifacts: Mapping[str, str] = record.data["artifacts"]
    with Store.open(request.store) as store:
        session_folder = store.make_session_folder("note")  # from here on a collection spares what is looked at
        if any(store.check(tree, quarantine=False) for tree in artifacts.values()):
            return None
        notices = _check_out(store, record.result.pipeline, artifacts)
        result = replay(request, record, listener, started_at, notices)
        with suppress(OSError):  # then the next run looks at them again
            _update_record(store, request, record, session_folder / "new")
    return result


def _check_out(store: Store, pipeline: str, artifacts: Mapping[str, str]) -> list[Notice]:
    """Restore each output checkout; return notices of those that were missing."""
    notices = []
    for stage, tree in artifacts.items():
        out, restored = store.check_out(tree, pipeline, stage)
        notices += [Notice("warning", notice) for notice in store.drain_notices()]
        notices += [Notice("info", f"{stage}: restored {out}")] if restored else []
    return notices


def _update_record(store: Store, request: Request, record: NoopRecord, temporary: Path) -> None:
    """Write the present state of objects and checkouts into the no-op record."""
    snapshot = store.take_snapshot(record.result.pipeline, record.data["artifacts"])
    if snapshot:
        note = {**record.data, "stored": build_snapshot(snapshot.files, snapshot.folders)}
        replace_file(str(request.record_path), encode_checksummed(note), str(temporary))
