"""What a run looked at, so that the next one can see at a glance that there is nothing to do.

When every stage of a run is up to date, everything that this rests on is noted: the files that the pipeline was read
from, what its stages were told and what they read, installed packages, orun's own code, the device, and in the store
each record, object and checkout. A later run compares signatures (device, inode, size, times) with that note, reads no
artifact, and imports neither YAML nor the store. Any difference, however small, leads to the whole way through planner
and runner; the note never decides that something is out of date, and never why.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blake3 import blake3

from orun.codec import decode, encode
from orun.environment import device, tools
from orun.events import GateJudged, RunStarted, StageFinished
from orun.journal import Journal, Listener
from orun.observe import digest_file, listing_digest, value_digest
from orun.record import RunResult
from orun.remote.asked import Remote
from orun.store.reading import signature_of
from orun.store.refusals import refusals
from orun.store.runs import Runs
from orun.store.sealed import BrokenSealError, unseal
from orun.targets import Target

FORMAT = 1  # of a note; raise it when the meaning of a field changes


@dataclass(frozen=True)
class Request:
    """A run as it was asked for; only whole runs are remembered.

    Attributes:
        store: absolute path of the store.
        file: absolute path of the pipeline file.
        overrides: the `--set` values.
        remote: what was said of the remote; nothing when nothing was.
    """

    store: Path
    file: Path
    overrides: Mapping[str, str]
    remote: Remote | None = None

    @property
    def note(self) -> Path:
        """Where what is remembered of it lies."""
        parts = [str(self.file), dict(self.overrides), *([encode(self.remote)] if self.remote else [])]
        text = json.dumps(parts, sort_keys=True)
        return self.store / "index" / f"run-{blake3(text.encode()).hexdigest()}.json"


def recall(request: Request) -> RunResult | None:
    """The result of the last run of that request, when nothing that it rests on has changed; else None."""
    try:
        note = unseal(request.note.read_bytes())
    except (OSError, BrokenSealError):  # there is none, or it was damaged
        return None
    if note.get("format") != FORMAT or note["around"] != around(note["targets"]) or not _unchanged(note):
        return None
    if not _is_in_order(request.store):
        return None
    return decode(RunResult, note["result"])


def _is_in_order(store: Path) -> bool:
    """Whether a run can begin, and no process has left anything behind that is to be removed first."""
    try:
        return (store / "runs").is_dir() and not any((store / "tmp").iterdir())
    except OSError:
        return False


def _unchanged(note: Mapping[str, Any]) -> bool:
    """Whether files, folders and variables are as they were; stops at the first that is not."""
    return (
        all(signature(path) == seen for path, seen in note["files"].items())
        and all(digest_file(path) == digest for path, digest in note["contents"].items())
        and all(listing_digest(path) == digest for path, digest in note["folders"].items())
        and all(value_digest(os.environ.get(name)) == digest for name, digest in note["variables"].items())
    )


def around(targets: Iterable[Any]) -> dict[str, Any]:
    """The interpreter, the installed packages and the device, as plain data."""
    known = [None if target is None else decode(Target, target) for target in targets]
    return {
        "python": [sys.version, sys.executable],
        "packages": dict(tools.installed()),
        "device": [device.fingerprint("measurement", target) for target in known],
    }


def signature(path: str) -> list[int] | None:
    """The signature of a file or folder as JSON keeps it; None when there is none."""
    try:
        return list(signature_of(os.stat(path)))  # noqa: PTH116 - thousands of them
    except OSError:
        return None


def replay(request: Request, remembered: RunResult, listener: Listener, started_at: float) -> RunResult:
    """Give a remembered result a run of its own: folder, events and record."""
    with refusals("begin a run", request.store):
        folder = Runs(request.store / "runs").new(remembered.pipeline)
    with Journal(folder, listener, started_at) as journal:
        journal.emit(
            RunStarted(
                run=journal.folder.name,
                pipeline=remembered.pipeline,
                file=remembered.file,
                stages=tuple(stage.stage for stage in remembered.stages),
                jobs=0,
                started_at=journal.started_at,
                host=remembered.host,
                folder=journal.folder,
                overrides=remembered.overrides,
                sources=remembered.sources,
                repeats=remembered.repeats,
            )
        )
        for stage in remembered.stages:
            journal.emit(StageFinished(stage))
            for verdict in remembered.verdicts:
                if verdict.stage == stage.stage:
                    journal.emit(GateJudged(verdict))
        return journal.finish(journal.result(remembered.exit_code))
