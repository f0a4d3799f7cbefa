"""No-op check: has anything changed since the last run of the same request?

When every stage of a run is up to date, a no-op record stores all that this depends on: the files of the pipeline, the
inputs of its stages, installed packages, orun's own code, the device, and each record, object and checkout in the
store. A later run compares signatures (device, inode, size, times) with the record, reads no artifact, and imports
neither YAML nor the store. If only artifacts and checkouts were touched, `orun.noop.restore` checks these. Any other
difference leads to planner and runner. The record never decides that something is out of date, or why.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from blake3 import blake3

from orun.core.events import Event, GateJudged, Notice, RunStarted, StageFinished
from orun.core.run_record import RunResult
from orun.core.serialization import Record, decode, encode, replace
from orun.core.targets import Target
from orun.environment import device, distributions
from orun.environment.env_vars import list_signing_keys, read_stage_value
from orun.environment.startup import list_startup_code
from orun.eventlog import Journal, Listener, build_unrecorded_notice
from orun.fs.bounded_reads import LOG_LIMIT, TEXT_LIMIT, read_bounded
from orun.fs.observed_state import digest_file, digest_listing, digest_value, observe_same_details
from orun.fs.os_errors import convert_os_errors
from orun.fs.signatures import Signature, read_signature
from orun.remote.options import Remote
from orun.store.checksummed_json import decode_checksummed
from orun.store.layout import RECORD_FILE, VERSION, VERSION_FILE, is_writable, locate_note
from orun.store.runs import Runs

FORMAT = 9  # of a no-op record; raise it when the meaning of a field changes


class Request(Record, frozen=True):
    """Request for a run; only runs of a whole pipeline have no-op records.

    Attributes:
        store: absolute path of the store.
        file: absolute path of the pipeline file.
        overrides: the `--set` values.
        remote: the remote options; None if there were none.
        strict: whether every gate must pass.
        fleet: the option that names other machines; empty if there was none.
    """

    store: Path
    file: Path
    overrides: Mapping[str, str]
    remote: Remote | None = None
    strict: bool = False
    fleet: str = ""

    @property
    def record_path(self) -> Path:
        """Path of the no-op record, which names the files of one store by absolute path: a copy has another record."""
        overrides = list(self.overrides.items())  # in their order: a later override may replace an earlier one
        parts = [str(self.store), str(self.file), overrides, *([encode(self.remote)] if self.remote else [])]
        parts += ["strict"] if self.strict else []
        parts += ["on", self.fleet] if self.fleet else []
        text = json.dumps(parts, sort_keys=True)
        return locate_note(self.store, blake3(text.encode()).hexdigest())


class NoopRecord(Record, frozen=True):
    """No-op record that still holds: the result of the last run of a request.

    Attributes:
        result: of that run.
        data: the record as plain data, the result among it. It may have `fleet`: the machines of the run must agree,
            see `orun.noop.fleet_check`.
        in_place: whether nobody has touched the artifacts in the store and their checkouts.
    """

    result: RunResult
    data: Mapping[str, Any]
    in_place: bool


def find_record(request: Request) -> NoopRecord | None:
    """Return the no-op record of a request if nothing that its result depends on has changed; else None."""
    try:
        data = decode_checksummed(read_bounded(request.record_path, LOG_LIMIT))
    except (OSError, ValueError):  # it is missing or damaged
        return None
    if (
        data.get("format") != FORMAT
        or data["surroundings"] != read_surroundings(data["targets"])
        or not _is_unchanged(data)
    ):
        return None
    if not _is_in_order(request.store, data["result"]["repeats"]):
        return None
    return NoopRecord(decode(RunResult, data["result"]), data, _is_same(data["stored"]))


def _is_in_order(store: Path, run: str) -> bool:
    """Return whether the recorded run still exists, and the store has this layout and no leftovers."""
    try:
        known = read_bounded(store / VERSION_FILE, TEXT_LIMIT) == VERSION
        left = any(any((store / name).iterdir()) for name in ("tmp", "locks"))
        return known and not left and (store / "runs" / run / RECORD_FILE).is_file()
    except OSError:
        return False


def _is_unchanged(data: Mapping[str, Any]) -> bool:
    """Return whether files, folders, variables and modules are unchanged; artifacts and checkouts do not count."""
    return (
        _is_same(data["read"])
        and all(digest_file(path) == digest for path, digest in data["contents"].items())
        and all(digest_value(name, read_stage_value(name)) == digest for name, digest in data["variables"].items())
        and all((name in distributions.list_modules()) == there for name, there in data["modules"].items())
        and data["secrets"] == list_signing_keys()
        and all(observe_same_details(state, path) == state for path, state in data["probed"].items())
    )


def _is_same(seen: Mapping[str, Any]) -> bool:
    """Return whether files and folders still match what `build_snapshot` returned."""
    files = {path: read_signature(path) for path in seen["files"]}
    return build_snapshot(files, {path: digest_listing(path) for path in seen["folders"]}) == seen


def build_snapshot(files: Mapping[str, Signature | None], folders: Mapping[str, str]) -> dict[str, Any]:
    """Return files and folders with one digest of the signatures of the files and of the names in the folders."""
    states = [*files.values(), *folders.values()]
    return {"files": [*files], "folders": [*folders], "digest": blake3(repr(states).encode()).hexdigest()}


def read_surroundings(targets: Iterable[Any]) -> dict[str, Any]:
    """Return interpreter, startup code, place of orun's own code, packages and device, as plain data."""
    known = [None if target is None else decode(Target, target) for target in targets]
    return {
        "python": [sys.version, sys.executable, sys.getfilesystemencoding()],
        "orun": os.path.dirname(os.path.dirname(__file__)),  # noqa: PTH120 - a record has the signatures of one copy of its code
        "packages": dict(distributions.list_exact()),
        "startup": [list(entry) for entry in list_startup_code()],
        "device": [device.fingerprint("measurement", target) for target in known],
    }


def replay(
    request: Request, record: NoopRecord, listener: Listener, started_at: float, notices: Sequence[Notice]
) -> RunResult:
    """Give a recorded result a run of its own: folder, events with the notices, and run record."""
    result, runs = record.result, Runs(request.store / "runs")
    recorded = is_writable(request.store)
    with convert_os_errors("begin a run", request.store):
        folder = runs.create(result.pipeline) if recorded else runs.choose_next_folder(result.pipeline)
    with Journal(folder, listener, started_at, recorded=recorded) as journal:
        journal.emit(
            RunStarted(
                run=journal.folder.name,
                pipeline=result.pipeline,
                file=result.file,
                stages=tuple(stage.stage for stage in result.stages),
                jobs=0,
                started_at=journal.started_at,
                host=result.host,
                folder=journal.folder,
                overrides=result.overrides,
                sources=result.sources,
                repeats=result.repeats,
            )
        )
        for notice in (*notices, *(() if recorded else (build_unrecorded_notice(request.store),))):
            journal.emit(notice)
        journal.emit_encoded(_iter_outcomes(record))
        repeated = journal.build_result(result.exit_code)
        return journal.finish(replace(repeated, changed_settings=result.changed_settings))


def _iter_outcomes(record: NoopRecord) -> Iterator[tuple[Event, Mapping[str, Any]]]:
    """Yield each stage with its verdicts, as events of a run."""
    data = record.data["result"]
    judged: dict[str, list[tuple[Event, Mapping[str, Any]]]] = {}
    for verdict, encoded in zip(record.result.verdicts, data["verdicts"], strict=True):
        judged.setdefault(verdict.stage, []).append((GateJudged(verdict), {"verdict": encoded}))
    for stage, encoded in zip(record.result.stages, data["stages"], strict=True):
        yield StageFinished(stage), {"result": encoded}
        yield from judged.get(stage.stage, ())
