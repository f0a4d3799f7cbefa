"""Errors of stages that failed: what, where, why, and the command that runs the stage alone."""

from __future__ import annotations

import errno
import os
import re
import shlex
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import gettempdir

from orun.core.source_location import Position
from orun.environment.physical_memory import measure_memory
from orun.environment.python_path import PACKAGE
from orun.errors import OutputRefused, StageCrashed, StageError, StageFailed, StageTimeout
from orun.executors.job import Job
from orun.executors.local.messages import Ended, Trouble
from orun.executors.tracing.scope import Scope
from orun.fs.os_errors import explain_shortage, quote
from orun.store.layout import store_option
from orun.text import units
from orun.text.suggestions import find_closest, format_settings, show_path

TAIL = 1 << 16  # bytes at the end of a log in which the frames of a crash are searched
FRAME = re.compile(rb'^  File "([^"\n]+)", line (\d+) in (.+)$', re.MULTILINE)
FATAL = b"Fatal Python error:"
LESS_MEMORY = "If memory is short, run fewer stages side by side (-j 1), or give this one less to do at a time"
KINDS = str(PACKAGE / "stages")


def from_trouble(job: Job, trouble: Trouble) -> StageError:
    """Return the error of a stage that reported its own failure."""
    error = OutputRefused if trouble.error == "OutputRefused" else StageFailed
    close = find_closest(trouble.name, trouble.known) if trouble.name else ""
    why = [f"did you mean {close!r}?"] if close else [trouble.why] if trouble.why else []
    code = Position(trouble.file, trouble.line, 1) if trouble.file else None
    if code:
        inside = f" in {trouble.function}" if trouble.function else ""
        why.append(f"at {show_path(code.file)}:{code.line}{inside}")
    if trouble.shortage:
        return _from_shortage(job, trouble.shortage, "\n".join([trouble.message, *why]), code)
    advice = _suggest_install(job, trouble.packages) if trouble.packages else trouble.hint
    of_machine = bool(trouble.packages)
    return _build_error(
        error,
        job,
        trouble.message,
        "\n".join(why),
        advice,
        of_machine=of_machine,
        module=trouble.module,
        missing=trouble.missing,
        code=code,
        settings=trouble.settings,
    )


def _from_shortage(job: Job, number: int, why: str, code: Position | None) -> StageError:
    """Return the error of a stage that met a full disk or another shortage, whatever failed of it."""
    places = dict.fromkeys([show_path(str(_find_store(job))), gettempdir()])
    problem, advice = explain_shortage(number, " ".join(map(quote, places)))
    advice = LESS_MEMORY if number == errno.ENOMEM else advice
    return _build_error(StageFailed, job, problem, why, advice, of_machine=True, code=code)


def _suggest_install(job: Job, packages: Sequence[str]) -> str:
    """Return how to install packages that a stage lacks."""
    if job.interpreter:
        return f"List {', '.join(packages)} among the packages of its environment"
    from orun.environment.install_commands import format_install_command

    return format_install_command(packages)


def from_end(job: Job, ended: Ended) -> StageError:
    """Return the error of a stage whose process ended without a report."""
    if ended.stopped == "cancelled":
        return StageFailed(job.stage, f"{job.stage} was stopped", why="the run was interrupted", log=job.log)
    if ended.stopped == "timeout":
        limit = units.show(job.timeout or 0.0, "s")
        message = f"{job.stage} ran past its time limit of {limit} and was stopped"
        advice = f"Give it longer (timeout: in {show_path(job.file)}), or find in its log what it was doing"
        return _build_error(StageTimeout, job, message, advice=advice)
    if ended.stopped == "memory":
        limit = units.show(job.memory or 0, "B")
        message = f"{job.stage} held more than its memory limit of {limit} and was stopped"
        advice = f"Give it more (memory: in {show_path(job.file)}), or less to do at a time"
        return _build_error(StageCrashed, job, message, advice=advice)
    if os.WIFSIGNALED(ended.status):
        return _build_crash_error(job, ended, os.WTERMSIG(ended.status))
    status = os.waitstatus_to_exitcode(ended.status)
    message = f"{job.stage} ended its process with exit status {status} before its function returned"
    why = "something in it called os._exit, or the like in native code"
    return _build_error(StageFailed, job, message, why)


def build_lost_supervisor_error(job: Job, log: str) -> StageError:
    """Return the error of a stage whose supervisor died."""
    why = f"it was killed from outside, or a library that it imports crashed it\n{log}".strip()
    message = f"the process that supervises {job.stage} died"
    return _build_error(StageCrashed, job, message, why)


def _build_crash_error(job: Job, ended: Ended, number: int) -> StageError:
    try:
        name = signal.Signals(number).name
    except ValueError:  # real-time signals have no name
        name = f"signal {number}"
    name = f"{name} ({signal.strsignal(number)})"
    if number == signal.SIGKILL:
        return _build_kill_error(job, ended, name)
    location = _find_crash_location(job)
    why = f"in native code, called {location}" if location else ""
    return _build_error(StageCrashed, job, f"{job.stage} crashed: {name}", why)


def _build_kill_error(job: Job, ended: Ended, name: str) -> StageError:
    sizes = f"{units.show(ended.peak_memory, 'B')} of the {units.show(measure_memory(), 'B')} here"
    if ended.out_of_memory:
        why = f"the kernel ended it because memory ran out: its largest process had {sizes}"
    else:
        why = f"from outside, or because memory ran out: its largest process had {sizes}"
    return _build_error(StageCrashed, job, f"{job.stage} was killed: {name}", why, LESS_MEMORY, of_machine=True)


def _find_crash_location(job: Job) -> str:
    """Return the last line of the user's or the kind's code, as the fault handler wrote it to the log."""
    try:
        with Path(job.log).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            _, _, frames = file.read().rpartition(FATAL)
    except OSError:  # the log's folder was removed
        return ""
    scope = Scope([job.project])
    for name, line, function in FRAME.findall(frames):
        path = os.fsdecode(name)
        if scope.is_code(path) or path.startswith(KINDS):
            return f"at {show_path(path)}:{int(line)} in {function.decode()}"
    return ""


def _build_error(  # noqa: PLR0913 - what reports say of it
    error: type[StageError],
    job: Job,
    message: str,
    why: str = "",
    advice: str = "",
    *,
    of_machine: bool = False,
    module: str = "",
    missing: Sequence[str] = (),
    code: Position | None = None,
    settings: Mapping[str, str] | None = None,
) -> StageError:
    """Return the error with a hint: the advice, the log, and the command that runs the stage alone."""
    options = format_settings(job.overrides) + _format_store_option(job)
    command = f"orun {shlex.quote(show_path(job.file))} --only {shlex.quote(job.stage)}{options}"
    return error(
        job.stage,
        message,
        why=why,
        hint=format_commands(job.log, command),
        log=job.log,
        advice=advice,
        of_machine=of_machine,
        module=module,
        missing=missing,
        command=command,
        code=code,
        settings=settings,
    )


def format_commands(log: str, command: str) -> str:
    """Return the part of the hint that names the log of a stage and the command that runs it alone."""
    return f"Its log: {show_path(log)}\nRun it alone: {command}"


def _find_store(job: Job) -> Path:
    """Return the store of a job's run, .../runs/ID/logs/STAGE.log; outside of one, the folder of its log."""
    folder = Path(job.log).parent
    return folder.parents[2] if folder.parent.parent.name == "runs" else folder


def _format_store_option(job: Job) -> str:
    """Return the option that names the store of the job's run; empty for the default one, and outside of a run."""
    store = _find_store(job)
    return "" if store == Path(job.log).parent else store_option(store, Path(job.root))
