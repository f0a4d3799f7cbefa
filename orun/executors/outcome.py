"""Outcome of a job, from the reports of its process and its supervisor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orun.core.serialization import replace
from orun.errors import StageError
from orun.executors.failures import from_end, from_trouble
from orun.executors.job import Job, JobResult, Signature
from orun.executors.local.messages import Ended, Trouble
from orun.executors.local.undeclared_writes import strays
from orun.executors.tracing.recorder import signature_of
from orun.executors.tracing.scope import Scope
from orun.fs.observed_state import (
    ABSENT,
    BYTES,
    FILE,
    FIRST,
    appearance,
    place_on_path,
    search_folders,
    tells_more,
    was_absent,
)

EMPTY = f"{FILE} of 0{BYTES}"


def outcome_of(
    job: Job, said: JobResult | Trouble | None, written: Mapping[str, bool], ended: Ended
) -> JobResult | StageError:
    """The result of a job, or why there is none.

    Args:
        job: the job.
        said: what its process said; None when it ended without a word.
        written: what Python has made or opened for writing in it -> whether only to add to its end.
        ended: what its supervisor saw.
    """
    if ended.stopped or said is None or ended.status:
        return from_end(job, ended)
    if isinstance(said, Trouble):
        return from_trouble(job, said)
    reads, made = {**ended.reads, **said.reads}, {**ended.written, **written}
    made |= {path: made[path] and adds for path, adds in ended.written.items()}
    untouched = made.keys() - _touched(said.reads, written) - _touched(ended.reads, ended.written)
    reads |= {path: signature_of(path)[0] for path in untouched & reads.keys()}
    own = {path for path in made.keys() & reads.keys() if not _is_input(job, path, reads[path])}
    sought = {path for path, seen in reads.items() if seen is None}
    asked = {**ended.probed, **said.probed}
    asked |= {path: what for path, what in ended.probed.items() if tells_more(what) and not tells_more(asked[path])}
    sought |= {path for path, what in asked.items() if was_absent(what)}
    inputs = {path: seen for path, seen in sorted(reads.items()) if path not in own}
    probed = {
        path: what
        for path, what in sorted(asked.items())
        if path not in made and (path not in reads or tells_more(what))
    }
    return replace(
        said,
        reads=inputs,
        probed={**probed, **_journals(inputs, ended.missed), **_by_name(inputs)},
        packages={**ended.packages, **said.packages},
        untraced=said.untraced or ended.untraced,
        wrote=strays(job, {path: adds for path, adds in made.items() if path not in untouched}, sought),
        seconds=ended.seconds,
        cpu_seconds=ended.cpu_seconds,
        peak_memory=ended.peak_memory,
    )


def _journals(inputs: Mapping[str, Signature | None], missed: Iterable[str]) -> dict[str, str]:
    """What a database has beside its file while it is written to, and reads as well: there was none, or nothing in it.

    SQLite (`data.db-wal`) opens or makes it even to read, and removes it at the end.
    """
    beside = [path for path in missed if any(seen and path.startswith(name) for name, seen in inputs.items())]
    told = {path: appearance(path, size=True) for path in beside}
    return {path: what for path, what in told.items() if what in (ABSENT, EMPTY)}


def _by_name(inputs: Mapping[str, Signature | None]) -> dict[str, str]:
    """Those of the inputs that are programs and libraries, and that their names lead to."""
    found = (path for path, seen in inputs.items() if seen and path.rpartition("/")[0] in search_folders(path))
    told = ((path, place_on_path(path)) for path in found)
    return {path: place for path, place in told if place.startswith(FIRST)}


def _touched(reads: Mapping[str, Signature | None], written: Mapping[str, bool]) -> set[str]:
    """Those of the files that were opened for writing that were, too, or were not read before: databases are not.

    Whose owner or mode alone has changed is as it was: SQLite gives the log of a database to the owner of its file,
    whenever root opens it.
    """
    return {path for path in written if not _is_as_read(path, reads.get(path))}


def _is_as_read(path: str, seen: Signature | None) -> bool:
    now = signature_of(path)[0]
    return now is not None and seen is not None and now[:-1] == seen[:-1]


def _is_input(job: Job, path: str, seen: Signature | None) -> bool:
    """Whether a file that a stage has both read and written is an input, and not a cache that a library keeps.

    One that was not there is the stage's own. One of the project is an input, so that the runner notices its change.
    One from elsewhere is an input when it is as it was: databases are opened for writing and then only read.
    """
    return seen is not None and (Scope([job.project]).is_code(path) or signature_of(path)[0] == seen)
