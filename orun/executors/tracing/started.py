"""Reads seen by Python in workers started as programs, reported to the stage's own process.

So a pool's workers begin where a stage asks `multiprocessing` for `spawn` or `forkserver`, from Python 3.14 on unless
it asks for `fork`, and joblib's unless it asks for another backend than loky. What each is given first has a part more,
and to unpickle that is to watch the worker from there on: before it loads a module of the user's.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from orun.core.serialization import Record
from orun.executors.local.import_hooks import when_loaded
from orun.executors.tracing.observer import Observer
from orun.executors.tracing.scope import Scope, scope_of

PART = "orun"
# Modules whose `get_preparation_data` tells a worker what to be; `loky` is the library of its own that joblib brings.
SPAWNERS = ("multiprocessing.spawn", "joblib.externals.loky.backend.spawn", "loky.backend.spawn")


class _Beginning(Record, frozen=True):
    """Becomes `_begin` in the worker.

    Attributes:
        scope: tells the user's files.
        file: in which the worker tells what it sees.
    """

    scope: Scope
    file: int

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        from multiprocessing.reduction import DupFd

        return _begin, (DupFd(self.file), self.scope.made_of)


def watch(observer: Observer) -> None:
    """Have an observer that is installed told what workers see which the stage starts."""
    when_loaded(dict.fromkeys(SPAWNERS, functools.partial(_hand_over, observer)))


def _hand_over(observer: Observer, spawn: ModuleType) -> None:
    prepare = spawn.get_preparation_data

    @functools.wraps(prepare)
    def preparing(name: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        data: dict[str, Any] = prepare(name, *arguments, **options)
        file = observer.forks.share()
        if observer.scope is not None and file is not None:
            data[PART] = _Beginning(observer.scope, file)
        return data

    spawn.get_preparation_data = preparing  # type: ignore[attr-defined]  # in the process of a stage


def _begin(file: Any, made_of: tuple[tuple[str, ...], ...]) -> None:
    """Watch this process, which is a worker's.

    Args:
        file: a descriptor as `multiprocessing` or loky hands it on.
        made_of: the arguments of the scope.
    """
    descriptor = file.detach()
    os.set_inheritable(descriptor, False)
    observer = Observer()
    observer.install()
    watch(observer)
    observer.narrow(scope_of(*made_of))
    observer.forks.join(descriptor)
