"""No-op check: has anything changed since the last run of the same request?

When every stage of a run is up to date, everything that this rests on is noted: the files that the pipeline was read
from, what its stages were told and what they read, installed packages, orun's own code, the device, and in the store
each record, object and checkout. A later run compares signatures (device, inode, size, times) with that note, reads no
artifact, and imports neither YAML nor the store. Where only artifacts and checkouts were touched, `orun.noop.restore`
looks at these; any other difference, however small, leads to the whole way through planner and runner. The note never
decides that something is out of date, and never why.
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
from orun.core.serialization import Record, decode, encode
from orun.core.targets import Target
from orun.environment import device, distributions
from orun.environment.env_vars import reproducible_settings, value_told
from orun.environment.startup import startup_code
from orun.eventlog import Journal, Listener, unrecorded_notice
from orun.fs.observed_state import LOG_LIMIT, appearance_as, digest_file, listing_digest, read_bounded, value_digest
from orun.fs.os_errors import convert_os_errors
from orun.fs.signatures import Signature, signature_of
from orun.remote.options import Remote
from orun.store.checksummed_json import decode_checksummed
from orun.store.layout import RECORD_FILE, VERSION, VERSION_FILE, is_writable, note_path
from orun.store.runs import Runs

FORMAT = 7  # of a note; raise it when the meaning of a field changes


class Request(Record, frozen=True):
    """A run as it was asked for; only whole runs are remembered.

    Attributes:
        store: absolute path of the store.
        file: absolute path of the pipeline file.
        overrides: the `--set` values.
        remote: what was said of the remote; nothing when nothing was.
        strict: whether every gate must pass.
    """

    store: Path
    file: Path
    overrides: Mapping[str, str]
    remote: Remote | None = None
    strict: bool = False

    @property
    def note(self) -> Path:
        """Where what is remembered of it lies."""
        overrides = list(self.overrides.items())  # in their order: one may replace what another one has set
        parts = [str(self.file), overrides, *([encode(self.remote)] if self.remote else [])]
        parts += ["strict"] if self.strict else []
        text = json.dumps(parts, sort_keys=True)
        return note_path(self.store, blake3(text.encode()).hexdigest())


class Recalled(Record, frozen=True):
    """A remembered result.

    Attributes:
        result: of the last run of a request.
        note: what was noted of it, its result as plain data too.
        in_place: whether nobody has touched the artifacts in the store and their checkouts.
    """

    result: RunResult
    note: Mapping[str, Any]
    in_place: bool


def recall(request: Request) -> Recalled | None:
    """The result of the last run of that request, when all that decided upon it is as it was; else None."""
    try:
        note = decode_checksummed(read_bounded(request.note, LOG_LIMIT))
    except (OSError, ValueError):  # there is none, or it was damaged
        return None
    if note.get("format") != FORMAT or note["around"] != around(note["targets"]) or not _unchanged(note):
        return None
    if not _is_in_order(request.store, note["result"]["repeats"]):
        return None
    return Recalled(decode(RunResult, note["result"]), note, _is_same(note["stored"]))


def _is_in_order(store: Path, run: str) -> bool:
    """Whether the remembered run is there to refer to, the store is of this layout, and nothing was left in it."""
    try:
        known = (store / VERSION_FILE).read_bytes() == VERSION
        left = any(any((store / name).iterdir()) for name in ("tmp", "locks"))
        return known and not left and (store / "runs" / run / RECORD_FILE).is_file()
    except OSError:
        return False


def _unchanged(note: Mapping[str, Any]) -> bool:
    """Whether files, folders, variables and modules are as they were, but for artifacts and checkouts."""
    return (
        _is_same(note["read"])
        and all(digest_file(path) == digest for path, digest in note["contents"].items())
        and all(value_digest(name, value_told(name)) == digest for name, digest in note["variables"].items())
        and all((name in distributions.modules()) == there for name, there in note["modules"].items())
        and note["secrets"] == reproducible_settings()
        and all(appearance_as(what, path) == what for path, what in note["probed"].items())
    )


def _is_same(seen: Mapping[str, Any]) -> bool:
    """Whether files and folders are as they were when `noted` made this of them."""
    files, folders = map(signature, joined(seen["files"])), map(listing_digest, joined(seen["folders"]))
    return [digest_all(files), digest_all(folders)] == [seen["signatures"], seen["listings"]]


def noted(files: Mapping[str, Signature | None], folders: Mapping[str, str]) -> dict[str, Any]:
    """Files with their signatures, and folders with the digests of the names in them, as a note holds them."""
    names, below = by_folder(files), by_folder(folders)
    return {
        "files": names,
        "signatures": digest_all(files[path] for path in joined(names)),
        "folders": below,
        "listings": digest_all(folders[path] for path in joined(below)),
    }


def by_folder(paths: Iterable[str]) -> dict[str, list[str]]:
    """Paths as a note holds them: the names in each folder, which is named with the separator at its end."""
    found: dict[str, list[str]] = {}
    for path in paths:
        name = os.path.basename(path)  # noqa: PTH119 - thousands of them
        found.setdefault(path[: len(path) - len(name)], []).append(name)
    return found


def joined(folders: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """The inverse of `by_folder`, in the same order whether the note was just made or has been read."""
    return (folder + name for folder in sorted(folders) for name in folders[folder])


def digest_all(found: Iterable[Signature | str | None]) -> str:
    """One digest of what was found of many files or folders, in their order in the note."""
    return blake3(repr(list(found)).encode()).hexdigest()


def around(targets: Iterable[Any]) -> dict[str, Any]:
    """The interpreter and what it starts with, where orun's own code is, the packages and the device, as plain data."""
    known = [None if target is None else decode(Target, target) for target in targets]
    return {
        "python": [sys.version, sys.executable, sys.getfilesystemencoding()],
        "orun": os.path.dirname(os.path.dirname(__file__)),  # noqa: PTH120 - a note has the signatures of one copy of its code
        "packages": dict(distributions.exact()),
        "startup": [list(found) for found in startup_code()],
        "device": [device.fingerprint("measurement", target) for target in known],
    }


def signature(path: str) -> Signature | None:
    """The signature of a file or folder; None when there is none."""
    try:
        return signature_of(os.stat(path))  # noqa: PTH116 - thousands of them
    except OSError:
        return None


def replay(
    request: Request, recalled: Recalled, listener: Listener, started_at: float, notices: Sequence[Notice] = ()
) -> RunResult:
    """Give a remembered result a run of its own: folder, events, the notices among them, and record."""
    remembered, runs = recalled.result, Runs(request.store / "runs")
    recorded = is_writable(request.store)
    with convert_os_errors("begin a run", request.store):
        folder = runs.new(remembered.pipeline) if recorded else runs.next_folder(remembered.pipeline)
    with Journal(folder, listener, started_at, recorded=recorded) as journal:
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
        for notice in (*notices, *(() if recorded else (unrecorded_notice(request.store),))):
            journal.emit(notice)
        journal.emit_encoded(_outcomes(recalled))
        return journal.finish(journal.result(remembered.exit_code))


def _outcomes(recalled: Recalled) -> Iterator[tuple[Event, Mapping[str, Any]]]:
    """Each stage with its verdicts, as a run says them."""
    told = recalled.note["result"]
    judged: dict[str, list[tuple[Event, Mapping[str, Any]]]] = {}
    for verdict, encoded in zip(recalled.result.verdicts, told["verdicts"], strict=True):
        judged.setdefault(verdict.stage, []).append((GateJudged(verdict), {"verdict": encoded}))
    for stage, encoded in zip(recalled.result.stages, told["stages"], strict=True):
        yield StageFinished(stage), {"result": encoded}
        yield from judged.get(stage.stage, ())
