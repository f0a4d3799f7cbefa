"""Call of a stage's function in its process, and the checks of what it returned and left."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from orun.core.metrics import Metric
from orun.core.serialization import encode
from orun.errors import OutputRefused
from orun.executors.job import Job, JobResult
from orun.executors.local import closing, failure_location, seeds
from orun.executors.local.channel import Channel
from orun.executors.local.ending import end_all, give_up
from orun.executors.local.returned_metrics import checked_metrics
from orun.executors.tracing import modules
from orun.executors.tracing.observer import Observer
from orun.executors.tracing.packages import imports_of, modules_needed, packages_of, unowned
from orun.executors.tracing.recorder import Recorder, absolute, signature_of
from orun.executors.tracing.scope import Scope
from orun.stages._data.packages import NEEDED
from orun.stages._graph.input_domain import carry_domain
from orun.stages.bytecode import distrust_package
from orun.stages.code import load_function
from orun.stages.contract import Context
from orun.stages.ensure import check_output
from orun.stages.params import build

if TYPE_CHECKING:
    import logging

PROGRESS_INTERVAL = 0.1  # seconds between two reports of progress
LONGEST_TEXT = 200  # characters of what one says
MOST_NOTES, LONGEST_NOTE = 10, 1000  # of a stage, and characters of each
State = tuple[int, int, int]


def perform(job: Job, scope: Scope, channel: Channel, observer: Observer, untraced: str = "") -> dict[str, Any]:
    """Do a job in this process and note what it reads.

    Args:
        job: the job.
        scope: tells the user's files.
        channel: the connection to the supervisor.
        observer: sees what it reads; installed.
        untraced: why files that are opened below Python are not seen; empty when they are.

    Returns:
        What is to be said of it: `{"result": ..., "written": ...}` or `{"trouble": ...}`.
    """
    process = os.getpid()
    closing.watch()
    observer.narrow(scope)
    recorder, variables, probes = observer.recorder, observer.variables, observer.probes
    try:
        seeds.plant(job.seed)
        metrics, notes = _produce(job, channel)
        observer.gather()
        packages = observer.versions.found | _packages(scope, recorder, observer.imports.asked)
    except BaseException as error:  # noqa: BLE001 - SystemExit too: whatever ends a stage is reported
        with contextlib.suppress(OSError, ValueError):  # a full disk, or closed streams: only its log
            failure_location.write(scope, error)
        _end_copy(process)
        give_up()
        return {"trouble": encode(failure_location.trouble(job, scope, error))}
    _end_copy(process)
    read = (recorder.reads, recorder.listings, packages, variables.found, probes.found)
    result = JobResult(metrics, *read, notes=notes, untraced=untraced)
    return {"result": encode(result), "written": recorder.written}


def _end_copy(process: int) -> None:
    """End what the function has forked, and what came back from it too: it has nothing to say for the stage."""
    if os.getpid() != process:
        os._exit(1)


def _packages(scope: Scope, recorder: Recorder, asked: Collection[str]) -> dict[str, str]:
    """The distributions that the process has loaded or looked for, or that a kind needs for what it was told.

    A file of the user's with the name of a module that their code imports, or that is nowhere, would be imported
    instead. Not every one was looked for among the user's: the server has imported some before it was known.

    Args:
        scope: tells the user's files.
        recorder: what was read.
        asked: modules that were looked for.
    """
    code = [path for path, seen in recorder.reads.items() if seen and path.endswith(".py")]
    if not all(map(scope.is_code, code)):  # a text that is read is not run
        loaded = {absolute(file) for one in list(sys.modules.values()) if (file := getattr(one, "__file__", None))}
        code = [path for path in code if path in loaded or scope.is_code(path)]
    imported = imports_of(code)
    found, absent = modules_needed({*asked, *NEEDED}, imported, scope.is_code)
    for name in sorted(found.keys() & (imported | NEEDED) | absent):
        for path in modules.candidates(modules.user_path(scope), name):
            recorder.read(path)
    for path in unowned(found):
        recorder.reads.setdefault(path, signature_of(path)[0])
    return packages_of(found, absent)


def _produce(job: Job, channel: Channel) -> tuple[dict[str, Metric], tuple[str, ...]]:
    """Call the stage's function and check what it returned, left, and must have left alone; its metrics and notes."""
    inputs = {port: Path(folder) for port, folder in job.inputs.items()}
    before = _states(inputs, lasting=job.lasting)
    progress = _progress(job.stage, channel)
    context = _context(job, inputs, progress)
    metrics = checked_metrics(job.stage, _call(job, context))
    end_all(job.stage, job.output, progress)
    if touched := _touched(before, _states(inputs, lasting=job.lasting)):
        raise OutputRefused(
            job.stage,
            f"{job.stage} wrote into its inputs",
            why=f"they are read-only, and it changed {', '.join(touched)}",
            hint="Write to context.output, or to the working folder for what is temporary",
        )
    check_output(job.stage, job.spec, Path(job.output), inputs)
    notes = (*carry_domain(job.spec, Path(job.output), inputs), *context.notes)
    return metrics, tuple(str(note)[:LONGEST_NOTE] for note in dict.fromkeys(notes[:MOST_NOTES]))


def _context(job: Job, inputs: Mapping[str, Path], progress: Callable[[int, int, str], None]) -> Context:
    return Context(
        stage=job.stage,
        key=job.key,
        inputs=inputs,
        output=Path(job.output),
        root=Path(job.root),
        target=job.target,
        extra_targets=job.extra_targets,
        seed=job.seed,
        timeout=job.timeout,
        lineage=Path(job.lineage) if job.lineage else None,
        open_log=partial(_open_log, job.stage),
        progress=progress,
    )


def _call(job: Job, context: Context) -> object:
    if job.origin == "file":
        return load_function(context.root, job.entry)(context, **job.params)
    if job.plugged:
        distrust_package(job.plugged)
    module = importlib.import_module(job.entry)
    return module.run(context, build(module.Params, job.params))


def _open_log(stage: str) -> logging.Logger:
    import logging  # not for every stage: many write nothing

    log = logging.getLogger(f"orun.stage.{stage}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    return log


def _progress(stage: str, channel: Channel) -> Callable[[int, int, str], None]:
    last = float("-inf")

    def progress(done: int, total: int, what: str) -> None:
        nonlocal last
        if monotonic() - last >= PROGRESS_INTERVAL or done == total != 0:
            last = monotonic()
            channel.send({"stage": stage, "progress": [int(done), int(total), str(what)[:LONGEST_TEXT]]})

    return progress


def _states(inputs: Mapping[str, Path], *, lasting: bool) -> dict[str, State]:
    """Inode, if it lasts, size and mtime of every file below the inputs; their ctime changes with each link to them."""
    return {
        f"{port}/{entry.path[len(str(folder)) + 1 :]}": (status.st_ino * lasting, status.st_size, status.st_mtime_ns)
        for port, folder in inputs.items()
        for entry in _files(str(folder))
        if (status := entry.stat())
    }


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    """Every file at or below a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            elif entry.is_file():
                yield entry


def _touched(before: Mapping[str, State], after: Mapping[str, State]) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
