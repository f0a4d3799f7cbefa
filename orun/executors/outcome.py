"""What became of a job, from what its process said of it and what its supervisor saw."""

from __future__ import annotations

from collections.abc import Mapping

from orun.codec import replace
from orun.errors import StageError
from orun.executors.failures import from_end, from_trouble
from orun.executors.job import Job, JobResult, Signature
from orun.executors.messages import Ended, Trouble
from orun.executors.reads.recorder import signature_of
from orun.executors.reads.scope import Scope
from orun.executors.strays import strays
from orun.observe import tells_of_link, was_absent


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
    own = {path for path in made.keys() & reads.keys() if not _is_input(job, path, reads[path])}
    sought = {path for path, seen in reads.items() if seen is None}
    sought |= {path for path, what in said.probed.items() if was_absent(what)}
    return replace(
        said,
        reads={path: seen for path, seen in sorted(reads.items()) if path not in own},
        probed={
            path: what
            for path, what in sorted(said.probed.items())
            if path not in made and (path not in reads or tells_of_link(what))
        },
        wrote=strays(job, made, sought),
        seconds=ended.seconds,
        cpu_seconds=ended.cpu_seconds,
        peak_memory=ended.peak_memory,
    )


def _is_input(job: Job, path: str, seen: Signature | None) -> bool:
    """Whether a file that a stage has both read and written is an input, and not a cache that a library keeps.

    One that was not there is the stage's own. One of the project is an input, so that the runner notices its change.
    One from elsewhere is an input when it is as it was: databases are opened for writing and then only read.
    """
    return seen is not None and (Scope([job.project]).is_code(path) or signature_of(path)[0] == seen)
