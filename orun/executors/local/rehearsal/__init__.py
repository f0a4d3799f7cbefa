"""A stage that does nothing, done in a fork server before it forks.

CPython caches where it finds attributes, msgspec looks into each class once, other things are made when they are first
needed. What a process is forked from has done all of that already: the process runs faster, and has fewer pages copied,
since it does not write to them.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from orun.core.serialization import encode
from orun.executors.job import Job
from orun.executors.local import stage_function, stage_process
from orun.executors.local.channel import Channel
from orun.executors.local.warm import parse_beforehand
from orun.executors.tracing.observer import Observer
from orun.executors.tracing.scope import Scope
from orun.stages import code
from orun.stages.contract import Port, Spec

HERE = str(Path(__file__).parent)
JOB = Job(
    stage="rehearsal",
    key="",
    origin="file",
    entry="nothing.py:nothing",
    spec=Spec({"input": Port(("files",), "")}, "metrics"),
    params={"number": 1},
    inputs={"input": HERE},
    output=HERE,
    scratch=HERE,
    log=HERE,
    file=HERE,
    root=HERE,
    project=HERE,
)


def rehearse(observer: Observer) -> list[dict[str, Any]]:
    """Do it as the process of a stage does; whatever that changes in this one is as before.

    Args:
        observer: installed, and has nothing to remember.

    Returns:
        What was said to the supervisor.
    """
    parse_beforehand(str(Path(HERE, "nothing.py")))
    ours, theirs = Channel.pair()
    stage_process.send(ours, encode(JOB), Scope.of(JOB))
    job, scope = stage_process.receive(theirs)
    theirs.send({"stage": job.stage, "started": os.getpid()}, theirs.fileno())
    with _undone():
        said = stage_function.perform(job, scope, theirs, observer)
    observer.forget()
    theirs.send({"stage": job.stage, **said})
    heard = ours.messages()
    os.close(ours.descriptors.popleft())
    ours.close()
    theirs.close()
    return heard


@contextlib.contextmanager
def _undone() -> Iterator[None]:
    """What a block does to the import system goes with its end."""
    lists: tuple[list[Any], ...] = (sys.path, sys.path_hooks, sys.meta_path)
    kept, stats = [list(one) for one in lists], SourceFileLoader.path_stats
    try:
        yield
    finally:
        for one, before in zip(lists, kept, strict=True):
            one[:] = before
        SourceFileLoader.path_stats = stats  # type: ignore[method-assign]  # it was replaced in the block
        code.unload()
