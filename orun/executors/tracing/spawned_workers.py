"""Records of workers that are started as programs, sent to the stage's own process.

These are the workers of `multiprocessing` under `spawn` and `forkserver` (the default from Python 3.14 on), and those
of joblib under loky (its default). Their preparation data gets one item more. Unpickling it installs the observer
before the worker loads any module of the user.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from orun.core.serialization import Record
from orun.executors.local.import_hooks import run_when_loaded
from orun.executors.tracing.observer import Observer
from orun.executors.tracing.scope import Scope, build_scope

ITEM = "orun"
# Modules whose `get_preparation_data` makes the data; joblib brings its own copy of loky.
SPAWNERS = ("multiprocessing.spawn", "joblib.externals.loky.backend.spawn", "loky.backend.spawn")


class _ObserverSetup(Record, frozen=True):
    """Item of the preparation data: unpickling it calls `_observe` in the worker."""

    scope: Scope
    file: int

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        from multiprocessing.reduction import DupFd

        return _observe, (DupFd(self.file), self.scope.arguments)


def watch(observer: Observer) -> None:
    """Let an installed observer receive the records of workers that the stage starts."""
    run_when_loaded(dict.fromkeys(SPAWNERS, functools.partial(_wrap_preparation, observer)))


def _wrap_preparation(observer: Observer, spawn: ModuleType) -> None:
    prepare = spawn.get_preparation_data

    @functools.wraps(prepare)
    def prepare_with_observer(name: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        data: dict[str, Any] = prepare(name, *arguments, **options)
        file = observer.workers.share()
        if observer.scope is not None and file is not None:
            data[ITEM] = _ObserverSetup(observer.scope, file)
        return data

    spawn.get_preparation_data = prepare_with_observer  # type: ignore[attr-defined]  # in the process of a stage


def _observe(file: Any, scope_arguments: tuple[tuple[str, ...], ...]) -> None:
    """Observe this process, which is a worker.

    `file` is the descriptor as `multiprocessing` or loky passes it on.
    """
    descriptor = file.detach()
    os.set_inheritable(descriptor, False)
    observer = Observer()
    observer.install()
    watch(observer)
    observer.narrow(build_scope(*scope_arguments))
    observer.workers.join(descriptor)
