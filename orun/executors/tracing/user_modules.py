"""Modules of the user: loaded from their sources, or from byte code that certainly matches.

A new module changes what runs if it appears where it would be found first. Such paths are recorded as missing files. So
are the paths of a module that is elsewhere, or nowhere, if the project's code imports it.
"""
# ruff: noqa: PTH100, PTH113, PTH118  (strings: the import system works with them)

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from itertools import takewhile
from types import ModuleType

from orun.environment.bytecode import distrust, may_be_stale
from orun.environment.python_path import CHECKOUT
from orun.executors.tracing.frames import FINDERS, find_caller
from orun.executors.tracing.recorder import Recorder
from orun.executors.tracing.scope import Scope
from orun.stages.code import SourceLoader

COMPILED = ((ExtensionFileLoader, EXTENSION_SUFFIXES), (SourcelessFileLoader, BYTECODE_SUFFIXES))
OWN = (COMPILED[0], (SourceLoader, SOURCE_SUFFIXES), COMPILED[1])
OUTSIDE = (COMPILED[0], (SourceFileLoader, SOURCE_SUFFIXES), COMPILED[1])  # may be large, so byte code is used


def install(scope: Scope, recorder: Recorder) -> None:
    """From now on load the user's own modules from their sources, and record searches for them."""

    def hook(folder: str) -> UserFinder:
        if not _is_users(os.path.abspath(folder), scope) or os.path.isfile(folder):
            raise ImportError(f"{folder} is no folder of the user's")
        return UserFinder(folder, scope, recorder.read)

    sys.path_hooks.insert(0, hook)
    # Also for modules loaded by path (`spec_from_file_location`), which no finder sees.
    distrust(lambda _, path: scope.is_code(path) or (scope.is_dependency(path) and may_be_stale(path)))
    for folder in list_searched_folders(scope):
        sys.path_importer_cache.pop(folder, None)


@functools.lru_cache(maxsize=64)
def list_searched_folders(scope: Scope) -> list[str]:
    """Return the user's folders that the import system had searched at the first call, which is before a fork."""
    return [folder for folder in sys.path_importer_cache if _is_users(os.path.abspath(folder), scope)]


class UserFinder(FileFinder):
    """Finder of modules in one folder of the user, in the project or elsewhere.

    Args:
        folder: the folder.
        scope: which folders are the user's.
        record: called with each path that decides what is imported: the file of a module, the paths where it would be
            found first, and the paths of a missing module that the project's code imports.
    """

    def __init__(self, folder: str, scope: Scope, record: Callable[[str], None]) -> None:
        super().__init__(folder, *(OWN if scope.is_code(os.path.abspath(folder)) else OUTSIDE))
        self._scope = scope
        self._record = record

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a module in the folder."""
        spec = super().find_spec(fullname, target)
        package, _, name = fullname.rpartition(".")
        if spec is None and self._scope.is_code(find_caller(FINDERS, depth=1)[1]):
            self._record_all(iter_candidates([self.path], name))
        elif spec and spec.origin:
            self._record_all(takewhile(spec.origin.__ne__, iter_candidates(self._list_folders(package), name)))
            self._record(spec.origin)
        elif spec:  # a namespace package: a module of its name takes precedence, wherever that is
            self._record_all(iter_candidates(self._list_folders(package), name))
        return spec

    def _list_folders(self, package: str) -> list[str]:
        """Return the user's folders that hold modules of a package; a namespace package may have several."""
        if package and getattr(sys.modules.get(package), "__file__", None):
            return [self.path]
        return [os.path.join(folder, *package.split(".")) for folder in list_user_folders(self._scope)]

    def _record_all(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._record(path)


def list_user_folders(scope: Scope) -> list[str]:
    """Return the user's folders on the module path, in order: own code, and packages in development mode."""
    return [folder for folder in map(os.path.abspath, sys.path) if _is_users(folder, scope)]


def _is_users(folder: str, scope: Scope) -> bool:
    return scope.is_code(folder) or (folder != CHECKOUT and scope.is_dependency(folder))


def iter_candidates(folders: Iterable[str], name: str) -> Iterator[str]:
    """Yield the paths at which a module would be found, in the order of the search."""
    for folder in folders:
        yield os.path.join(folder, name, "__init__.py")
        yield os.path.join(folder, f"{name}.py")
