"""Modules of the user's: loaded from their sources, or from byte code that is surely theirs; and where one was missing.

A module that appears at a place where it would now be found first changes what runs, so that such places are noted as
missing files. So are those of a module that is elsewhere, or nowhere, when the project's own code asks for it.
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

from orun.environment.python_path import CHECKOUT
from orun.executors.tracing.frames import FINDERS, calling
from orun.executors.tracing.recorder import Recorder
from orun.executors.tracing.scope import Scope
from orun.stages.bytecode import distrust, may_be_stale
from orun.stages.code import SourceLoader

COMPILED = ((ExtensionFileLoader, EXTENSION_SUFFIXES), (SourcelessFileLoader, BYTECODE_SUFFIXES))
OWN = (COMPILED[0], (SourceLoader, SOURCE_SUFFIXES), COMPILED[1])
ELSEWHERE = (COMPILED[0], (SourceFileLoader, SOURCE_SUFFIXES), COMPILED[1])  # may be large: compiled once, as ever


def install(scope: Scope, recorder: Recorder) -> None:
    """Load the user's own modules from their sources from now on, and note in `recorder` what was looked for."""

    def hook(folder: str) -> UserFinder:
        if not _is_users(os.path.abspath(folder), scope) or os.path.isfile(folder):
            raise ImportError(f"{folder} is no folder of the user's")
        return UserFinder(folder, scope, recorder.read)

    sys.path_hooks.insert(0, hook)
    # Own code is loaded so when it is loaded by its path (`spec_from_file_location`), and is compiled each time.
    distrust(lambda _, path: scope.is_code(path) or (scope.is_discovery(path) and may_be_stale(path)))
    for folder in looked_at(scope):
        sys.path_importer_cache.pop(folder, None)


@functools.lru_cache(maxsize=64)
def looked_at(scope: Scope) -> list[str]:
    """The folders of the user's that the import system has looked at when this is first asked: before a fork."""
    return [folder for folder in sys.path_importer_cache if _is_users(os.path.abspath(folder), scope)]


class UserFinder(FileFinder):
    """Finds modules in one folder of the user's, in the project or elsewhere.

    Args:
        folder: the folder.
        scope: tells the user's folders from others.
        note: called with each path that decides what is imported: where a module of the user's is, and where it would
            have been found first; and where one that the project's code asks for would be, when it is not there.
    """

    def __init__(self, folder: str, scope: Scope, note: Callable[[str], None]) -> None:
        super().__init__(folder, *(OWN if scope.is_code(os.path.abspath(folder)) else ELSEWHERE))
        self._scope = scope
        self._note = note

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module's spec when it lies in the folder."""
        spec = super().find_spec(fullname, target)
        package, _, name = fullname.rpartition(".")
        if spec is None and self._scope.is_code(calling(FINDERS, depth=1)[1]):
            self._note_all(candidates([self.path], name))
        elif spec and spec.origin:
            self._note_all(takewhile(spec.origin.__ne__, candidates(self._folders(package), name)))
            self._note(spec.origin)
        elif spec:  # a folder without `__init__.py`: a module of its name goes before it, wherever that is
            self._note_all(candidates(self._folders(package), name))
        return spec

    def _folders(self, package: str) -> list[str]:
        """The folders of the user's in which modules of a package are looked for: of one without file in many."""
        if package and getattr(sys.modules.get(package), "__file__", None):
            return [self.path]
        return [os.path.join(folder, *package.split(".")) for folder in user_path(self._scope)]

    def _note_all(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._note(path)


def user_path(scope: Scope) -> list[str]:
    """The folders of the user's in which modules are looked for, in order: of own code, or installed in development."""
    return [folder for folder in map(os.path.abspath, sys.path) if _is_users(folder, scope)]


def _is_users(folder: str, scope: Scope) -> bool:
    return scope.is_code(folder) or (folder != CHECKOUT and scope.is_discovery(folder))


def candidates(folders: Iterable[str], name: str) -> Iterator[str]:
    """The paths at which a module would be found, in the order in which they are tried."""
    for folder in folders:
        yield os.path.join(folder, name, "__init__.py")
        yield os.path.join(folder, f"{name}.py")
