"""Outcome of a job, merged from the reports of its process and of its supervisor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orun.core.serialization import replace
from orun.errors import StageError
from orun.executors.failures import from_end, from_trouble
from orun.executors.job import Job, JobResult
from orun.executors.local.messages import Ended, Trouble
from orun.executors.local.undeclared_writes import list_undeclared_writes
from orun.executors.tracing.scope import Scope
from orun.fs.observed_state import (
    ABSENT,
    BYTES,
    FILE,
    FIRST,
    observe_appearance,
    observe_path_order,
    search_folders,
    tells_more,
    was_absent,
)
from orun.fs.signatures import Signature, read_signature

EMPTY = f"{FILE} of 0{BYTES}"


def build_outcome(
    job: Job, report: JobResult | Trouble | None, written: Mapping[str, bool], ended: Ended
) -> JobResult | StageError:
    """Return the result of a job, or the error that explains why there is none.

    Args:
        job: the job.
        report: what its process reported; None if it ended without a report.
        written: what Python created or opened for writing in it -> whether only to append.
        ended: what its supervisor saw.
    """
    if ended.stopped or report is None or ended.status:
        return from_end(job, ended)
    if isinstance(report, Trouble):
        return from_trouble(job, report)
    reads = {**ended.reads, **report.reads}
    all_written = {
        path: ended.written.get(path, True) and written.get(path, True) for path in {**ended.written, **written}
    }
    unmodified = all_written.keys() - _list_modified(report.reads, written) - _list_modified(ended.reads, ended.written)
    # Their owner or mode may have changed, and with it the ctime: the runner compares with the signature of now.
    reads |= {path: read_signature(path) for path in unmodified & reads.keys()}
    own = {path for path in all_written.keys() & reads.keys() if not _is_input(job, path, reads[path])}
    inputs = {path: signature for path, signature in sorted(reads.items()) if path not in own}
    probed = {**ended.probed, **report.probed}
    probed |= {
        path: state for path, state in ended.probed.items() if tells_more(state) and not tells_more(probed[path])
    }
    missing = {path for path, signature in reads.items() if signature is None}
    missing |= {path for path, state in probed.items() if was_absent(state)}
    still_probed = {
        path: state
        for path, state in sorted(probed.items())
        if path not in all_written and (path not in reads or tells_more(state))
    }
    changed = {path: appends for path, appends in all_written.items() if path not in unmodified}
    return replace(
        report,
        reads=inputs,
        probed={**still_probed, **_probe_database_logs(inputs, ended.missed), **_locate_on_path(inputs)},
        packages={**ended.packages, **report.packages},
        untraced=report.untraced or ended.untraced,
        undeclared_writes=list_undeclared_writes(job, changed, missing),
        seconds=ended.seconds,
        cpu_seconds=ended.cpu_seconds,
        peak_memory=ended.peak_memory,
    )


def _probe_database_logs(inputs: Mapping[str, Signature | None], missed: Iterable[str]) -> dict[str, str]:
    """Return the state of the log beside each database that was read: missing or empty.

    SQLite opens or creates the log (`data.db-wal`) even to read, and removes it at the end.
    """
    logs = [path for path in missed if any(seen and path.startswith(name) for name, seen in inputs.items())]
    states = {path: observe_appearance(path, size=True) for path in logs}
    return {path: state for path, state in states.items() if state in (ABSENT, EMPTY)}


def _locate_on_path(inputs: Mapping[str, Signature | None]) -> dict[str, str]:
    """Return the inputs that are programs and libraries found by their names -> their place on the search path."""
    on_path = (path for path, seen in inputs.items() if seen and path.rpartition("/")[0] in search_folders(path))
    places = ((path, observe_path_order(path)) for path in on_path)
    return {path: place for path, place in places if place.startswith(FIRST)}


def _list_modified(reads: Mapping[str, Signature | None], written: Mapping[str, bool]) -> set[str]:
    """Return the files opened for writing that changed, or that were not read before.

    A database may be opened for writing and only read. A change of owner or mode alone is no modification: SQLite gives
    a database's log to the owner of its file whenever root opens it.
    """
    return {path for path in written if not _is_as_read(path, reads.get(path))}


def _is_as_read(path: str, seen: Signature | None) -> bool:
    now = read_signature(path)
    return now is not None and seen is not None and now[:-1] == seen[:-1]


def _is_input(job: Job, path: str, seen: Signature | None) -> bool:
    """Return whether a file that a stage both read and wrote is an input, and not its own or a library's cache.

    A file that was missing is the stage's own. A file of the project is an input, so that the runner notices its
    change. Any other file is an input if it is unchanged: databases are opened for writing and then only read.
    """
    return seen is not None and (Scope([job.project]).is_code(path) or read_signature(path) == seen)
