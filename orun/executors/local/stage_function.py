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
from orun.core.serialization import encode, replace
from orun.environment.bytecode import distrust_package
from orun.errors import OutputRefused
from orun.executors.job import Job, JobResult
from orun.executors.local import failure_location, seeds
from orun.executors.local.channel import Channel
from orun.executors.local.ending import abandon_all, finish_all
from orun.executors.local.returned_metrics import check_metrics, require_declared
from orun.executors.tracing import user_modules
from orun.executors.tracing.observer import Observer
from orun.executors.tracing.packages import find_packages, list_imports, list_needed_modules, list_unowned_files
from orun.executors.tracing.recorder import Recorder, make_absolute
from orun.executors.tracing.scope import Scope
from orun.fs.signatures import read_signature, to_signature
from orun.stages._data.packages import CODE, NEEDED
from orun.stages._graph.input_domain import carry_domain
from orun.stages.code import load_function
from orun.stages.contract import Context
from orun.stages.ensure import check_output
from orun.stages.params import build

if TYPE_CHECKING:
    import logging

PROGRESS_INTERVAL = 0.1  # seconds between two reports of progress
LONGEST_TEXT = 200  # characters of its text
MOST_NOTES, LONGEST_NOTE = 10, 1000  # notes of a stage, and characters of a note
FileState = tuple[int, int, int]


def perform(job: Job, scope: Scope, channel: Channel, observer: Observer, untraced: str) -> dict[str, Any]:
    """Do a job in this process and record what it reads.

    `untraced` says why opens below Python are not traced; empty if they are.

    Returns:
        The report: `{"result": ..., "written": ...}` or `{"trouble": ...}`.
    """
    process = os.getpid()
    observer.narrow(scope)
    recorder, variables, probes = observer.recorder, observer.variables, observer.probes
    try:
        seeds.seed_all(job.seed)
        metrics, notes = _produce(job, channel)
        observer.gather()
        packages = observer.versions.versions | _collect_packages(scope, recorder, observer.searches.names)
    except BaseException as error:  # noqa: BLE001 - SystemExit too: whatever ends a stage is reported
        with contextlib.suppress(OSError, ValueError):  # a full disk, or closed streams: only the log suffers
            failure_location.write(scope, error)
        _exit_in_fork(process)
        abandon_all()
        return {"trouble": encode(failure_location.build_trouble(job, scope, error))}
    _exit_in_fork(process)
    read = (recorder.reads, recorder.listings, packages, variables.values, probes.states)
    result = JobResult(metrics, *read, notes=notes, untraced=untraced)
    return {"result": encode(result), "written": recorder.written}


def _exit_in_fork(process: int) -> None:
    """Exit if this is a process that the function forked and that returned from it, too."""
    if os.getpid() != process:
        os._exit(1)


def _collect_packages(scope: Scope, recorder: Recorder, searched: Collection[str]) -> dict[str, str]:
    """Return the distributions that the process loaded or looked for, or that its parameters ask for.

    Also record, as missing, the user's files that would be imported in the place of these modules. The server may have
    imported a module before the user's folders were known, so that no search among them was seen.
    """
    code = [path for path, seen in recorder.reads.items() if seen and path.endswith(".py")]
    if not all(map(scope.is_code, code)):  # a file that was only read as text does not count
        files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        loaded = {make_absolute(file) for file in files if file}
        code = [path for path in code if path in loaded or scope.is_code(path)]
    imported = list_imports(code)
    modules, absent = list_needed_modules({*searched, *NEEDED}, imported, scope.is_code)
    for name in sorted(modules.keys() & (imported | NEEDED) | absent):
        for path in user_modules.iter_candidates(user_modules.list_user_folders(scope), name):
            recorder.read(path)
    for path in list_unowned_files(modules):
        recorder.reads.setdefault(path, read_signature(path))
    for path, status in CODE.items():
        recorder.reads.setdefault(path, to_signature(status))
    return find_packages(modules, absent)


def _produce(job: Job, channel: Channel) -> tuple[dict[str, Metric], tuple[str, ...]]:
    """Call the stage's function and check its metrics, its output and its inputs; return metrics and notes."""
    inputs = {port: Path(folder) for port, folder in job.inputs.items()}
    before = _read_file_states(inputs, stable_inodes=job.stable_inodes)
    progress = _create_reporter(job.stage, channel)
    context = _build_context(job, inputs, progress)
    declared = job.spec.metrics or {}
    metrics = check_metrics(job.stage, _call(job, context), declared)
    if job.origin == "file":
        require_declared(job.stage, metrics, declared)
    finish_all(job.stage, job.output, progress)
    after = _read_file_states(inputs, stable_inodes=job.stable_inodes)
    if touched := sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)):
        raise OutputRefused(
            job.stage,
            f"{job.stage} wrote into its inputs",
            why=f"they are read-only, and it changed {', '.join(touched)}",
            hint="Write to context.output, or to the working folder for what is temporary",
        )
    check_output(job.stage, job.spec, Path(job.output), inputs)
    notes = (*carry_domain(job.spec, Path(job.output), inputs), *context.notes)
    return metrics, tuple(str(note)[:LONGEST_NOTE] for note in list(dict.fromkeys(notes))[:MOST_NOTES])


def _build_context(job: Job, inputs: Mapping[str, Path], progress: Callable[[int, int, str], None]) -> Context:
    sources = {
        port: replace(source, inputs={name: str(inputs[held]) for name, held in source.inputs.items()})
        for port, source in job.sources.items()
    }
    of_sources = {held for source in job.sources.values() for held in source.inputs.values()}
    return Context(
        stage=job.stage,
        key=job.key,
        inputs={port: folder for port, folder in inputs.items() if port not in of_sources},
        output=Path(job.output),
        root=Path(job.root),
        target=job.target,
        extra_targets=job.extra_targets,
        sources=sources,
        seed=job.seed,
        timeout=job.timeout,
        provenance=Path(job.provenance) if job.provenance else None,
        open_log=partial(_open_log, job.stage),
        progress=progress,
    )


def _call(job: Job, context: Context) -> object:
    if job.origin == "file":
        return load_function(context.root, job.entry)(context, **job.params)
    if job.plugin_package:
        distrust_package(job.plugin_package)
    module = importlib.import_module(job.entry)
    return module.run(context, build(module.Params, job.params))


def _open_log(stage: str) -> logging.Logger:
    import logging  # many stages log nothing

    log = logging.getLogger(f"orun.stage.{stage}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    return log


def _create_reporter(stage: str, channel: Channel) -> Callable[[int, int, str], None]:
    last = float("-inf")

    def report(done: int, total: int, text: str) -> None:
        nonlocal last
        if monotonic() - last >= PROGRESS_INTERVAL or done == total != 0:
            last = monotonic()
            channel.send({"stage": stage, "progress": [int(done), int(total), str(text)[:LONGEST_TEXT]]})

    return report


def _read_file_states(inputs: Mapping[str, Path], *, stable_inodes: bool) -> dict[str, FileState]:
    """Return inode (if stable), size and mtime of every file below the inputs; a new hard link changes the ctime."""
    return {
        f"{port}/{entry.path[len(str(folder)) + 1 :]}": (
            status.st_ino * stable_inodes,
            status.st_size,
            status.st_mtime_ns,
        )
        for port, folder in inputs.items()
        for entry in _iter_files(str(folder))
        if (status := entry.stat())
    }


def _iter_files(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield every file below a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _iter_files(entry.path)
            elif entry.is_file():
                yield entry
