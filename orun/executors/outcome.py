"""What became of a job, from what its process said of it and what its supervisor saw."""

from __future__ import annotations

from collections.abc import Collection

from orun.codec import replace
from orun.errors import StageError
from orun.executors.failures import from_end, from_trouble
from orun.executors.job import Job, JobResult, Signature
from orun.executors.messages import Ended, Trouble
from orun.executors.reads.recorder import signature_of
from orun.executors.reads.scope import Scope


def outcome_of(
    job: Job, said: JobResult | Trouble | None, written: Collection[str], ended: Ended
) -> JobResult | StageError:
    """The result of a job, or why there is none.

    Args:
        job: the job.
        said: what its process said; None when it ended without a word.
        written: files that Python opened for writing in it.
        ended: what its supervisor saw.
    """
    if ended.stopped or said is None or ended.status:
        return from_end(job, ended)
    if isinstance(said, Trouble):
        return from_trouble(job, said)
    reads = {**ended.reads, **said.reads}
    own = {path for path in {*written, *ended.written} & reads.keys() if not _is_input(job, path, reads[path])}
    return replace(
        said,
        reads={path: seen for path, seen in sorted(reads.items()) if path not in own},
        seconds=ended.seconds,
        cpu_seconds=ended.cpu_seconds,
        peak_memory=ended.peak_memory,
    )


def _is_input(job: Job, path: str, seen: Signature | None) -> bool:
    """Whether a file that a stage has both read and written is an input, and not a cache that a library keeps.

    One that was not there is the stage's own. One of the project is an input, so that the runner notices its change.
    One from elsewhere is an input when it is as it was: databases are opened for writing and then only read.
    """
    return seen is not None and (Scope(job.project).is_code(path) or signature_of(path)[0] == seen)
