"""Restore of artifacts to their places without a look at the pipeline.

All that decided upon a remembered run is as it was, but objects or checkouts were touched: outputs deleted, most often.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from orun.core.events import Notice
from orun.core.run_record import RunResult
from orun.eventlog import Listener
from orun.fs.durable import replace_file
from orun.noop.check import Recalled, Request, noted, replay
from orun.store import Store
from orun.store.checksummed_json import encode_checksummed


def restore(request: Request, recalled: Recalled, listener: Listener, started_at: float) -> RunResult | None:
    """Make every checkout be the artifact of its stage again, and replay the run.

    Returns:
        The result; None when an object is missing or damaged, which is left for the planner to find.

    Raises:
        StoreError: when the store cannot be used.
    """
    artifacts: Mapping[str, str] = recalled.note["artifacts"]
    with Store.open(request.store) as store:
        scratch = store.make_session_folder("note")  # from here on a collection spares what is looked at
        if any(store.check(tree, quarantine=False) for tree in artifacts.values()):
            return None
        notices = _check_out(store, recalled.result.pipeline, artifacts)
        result = replay(request, recalled, listener, started_at, notices)
        with suppress(OSError):  # then the next run looks at them again
            _note_again(store, request, recalled, scratch / "new")
    return result


def _check_out(store: Store, pipeline: str, artifacts: Mapping[str, str]) -> list[Notice]:
    """Put each artifact where people look for it, and say which were not there."""
    notices = []
    for stage, tree in artifacts.items():
        out, restored = store.checkout(tree, pipeline, stage)
        notices += [Notice("warning", notice) for notice in store.drain_notices()]
        notices += [Notice("info", f"{stage}: restored {out}")] if restored else []
    return notices


def _note_again(store: Store, request: Request, recalled: Recalled, temporary: Path) -> None:
    """Note objects and checkouts as they are now."""
    found = store.take_snapshot(recalled.result.pipeline, recalled.note["artifacts"])
    if found:
        note = {**recalled.note, "stored": noted(found.files, found.folders)}
        replace_file(str(request.note), encode_checksummed(note), str(temporary))
