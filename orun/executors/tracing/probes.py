"""Probes of Python code: existence, size and link target of a file that is not opened.

No audit event reports them, so the functions are wrapped. Inside the project the probes of any code count, as libraries
look there for optional files; outside only those of the project's code count. `os.path.exists` and its like record what
is there, any other `stat` its size too. A `stat` of 2.8 us takes 13 us if its result is known, 34 to 41 us for a new
path, 19 to 25 us outside. Times are not recorded: a changed time alone must not rebuild anything.
"""

from __future__ import annotations

import functools
import glob
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from orun.executors.tracing.frames import FINDERS, find_caller
from orun.executors.tracing.recorder import LISTERS, Recorder, make_absolute
from orun.executors.tracing.scope import Scope
from orun.fs import observed_state
from orun.fs.observed_state import observe_appearance

LSTAT: Mapping[str, bool] = {"size": True, "link": True}
# Module, function, and what it reads besides presence.
PROBES: tuple[tuple[ModuleType, str, Mapping[str, bool]], ...] = (
    (os, "stat", {"size": True}),
    (os, "lstat", LSTAT),
    (os, "access", {}),
    (os, "readlink", {"target": True}),
    (os.path, "lexists", {}),
    (os.path, "islink", {"link": True}),
)
LINKS = {"link", "target"}
# Functions of `HELPERS` that use `stat` for presence alone.
PRESENCE = frozenset(
    {"exists", "isfile", "isdir", "ismount", "is_file", "is_dir", "is_mount", "is_socket", "is_fifo",
     "is_block_device", "is_char_device", "samefile", "resolve", "select_exists"}
)  # fmt: skip
SUPPORTS = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids)
OURS = (str(Path(__file__).parents[1]), str(Path(observed_state.__file__).parent))  # code that probes as it records
PATHS = {"posixpath", "genericpath"}  # functions of `os.path`
HELPERS = LISTERS | PATHS | {__name__}  # modules that probe for their callers


class Probes:
    """Probes of the process of a stage.

    Paths that the recorder has opened, listed or created need no record here.

    Attributes:
        states: absolute path -> `orun.fs.observed_state.observe_appearance` when first probed.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.states: dict[str, str] = {}
        self._details: dict[str, dict[str, bool]] = {}
        self._scope: Scope | None = None
        self._recorder = recorder

    def install(self) -> None:
        """Wrap the probing functions."""
        for module, name, details in PROBES:
            _replace(module, name, self._wrap_probe(getattr(module, name), details))
        _replace(os.path, "realpath", self._wrap_realpath(os.path.realpath))
        _replace(os, "link", self._wrap_link(os.link))

    def narrow(self, scope: Scope) -> None:
        """Record probes from now on, as far as they are in the scope."""
        self._scope = scope

    def _wrap_probe(self, call: Callable[..., Any], details: Mapping[str, bool]) -> Callable[..., Any]:
        @functools.wraps(call)
        def probe(path: Any, *arguments: Any, **options: Any) -> Any:
            if self._scope and not isinstance(path, int) and options.get("dir_fd") is None:
                follows = options.get("follow_symlinks", True)
                self._record(path, self._scope, details if follows else {**details, "link": True})
            return call(path, *arguments, **options)

        return probe

    def _wrap_realpath(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Record the path itself; `os.lstat` records the links on the way to it."""

        @functools.wraps(call)
        def resolve(filename: Any, *arguments: Any, **options: Any) -> Any:
            if self._scope:
                self._record(filename, self._scope, {})
            return call(filename, *arguments, **options)

        return resolve

    def _wrap_link(self, call: Callable[..., None]) -> Callable[..., None]:
        """Record the source of a hard link, whose content is used without being opened, after its signature changed."""

        @functools.wraps(call)
        def link(src: Any, *arguments: Any, **options: Any) -> None:
            call(src, *arguments, **options)
            if self._scope and options.get("src_dir_fd") is None:
                self._recorder.read(make_absolute(os.fsdecode(src)))

        return link

    def _record(self, path: Any, scope: Scope, details: Mapping[str, bool]) -> None:
        if details is LSTAT and _is_called_by_path_function():
            return
        module, file = find_caller(HELPERS, depth=2)
        if module in FINDERS or file.startswith(OURS):
            return
        try:
            name = make_absolute(os.fsdecode(path))
        except (OSError, ValueError, TypeError):  # no valid path: the call itself fails
            return
        if name in self._recorder.written or (name in self._recorder.reads and not details.keys() & LINKS):
            return
        if self._recorder.is_temporary(name):
            return
        before = self._details.get(name)
        if "size" in details and _is_called_for_presence():
            details = {}
        if (before is None or details.keys() - before.keys()) and _is_relevant(name, file, scope, details):
            self._details[name] = {**(before or {}), **details}
            self.states[name] = observe_appearance(name, **self._details[name])


def _is_relevant(name: str, file: str, scope: Scope, details: Mapping[str, bool]) -> bool:
    """Return whether the stage depends on a probe by the code of a file."""
    own = scope.is_code(file) and scope.is_dependency(name)
    if "target" in details:  # links differ between machines, and may lead to the project
        return own and not scope.is_above(name)
    return own or scope.is_code(name)


def _is_called_by_path_function() -> bool:
    """Return whether a function of `os.path` calls `lstat`, as `realpath` does for every folder above a path."""
    caller = sys._getframe(3)  # noqa: SLF001 - as below
    return caller.f_globals.get("__name__") in PATHS


def _is_called_for_presence() -> bool:
    """Return whether a function that only tests for presence calls `stat`."""
    frame: FrameType | None = sys._getframe(3)  # noqa: SLF001 - the documented way to a caller's frame in CPython
    for _ in range(2):  # `Path.exists` by `Path.stat`
        if frame is None or frame.f_globals.get("__name__", "").partition(".")[0] not in HELPERS:
            return False
        if frame.f_code.co_name in PRESENCE:
            return True
        frame = frame.f_back
    return False


def _replace(module: ModuleType, name: str, function: Callable[..., Any]) -> None:
    """Replace a function, also in the sets of `os` that list what functions support."""
    call = getattr(module, name)
    for supporting in SUPPORTS:
        if call in supporting:
            supporting.add(function)
    setattr(module, name, function)
    for holder in [value for value in vars(glob).values() if isinstance(value, type)]:  # used by `Path.glob`
        for attribute, held in list(vars(holder).items()):
            if isinstance(held, staticmethod) and held.__func__ is call:
                setattr(holder, attribute, staticmethod(function))
