"""Questions that Python code asks of a file without opening it: existence, size, link target.

No audit hook tells of it: the functions that ask become functions that note what they are asked. Of what lies elsewhere
only the questions of the project's own code count; below the project those of libraries count too, which look there for
files that are optional. A question of `os.path.exists` and its like is answered by what is there, any other `stat` by
the size too: sizes add nothing to what it costs (a `stat` of 2.8 us takes 13 us where its answer is known, 34 to 41 us
of another path, 19 to 25 us elsewhere). Times are not told: that one alone has changed must build nothing.
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

from orun import executors
from orun.executors.tracing.frames import FINDERS, calling
from orun.executors.tracing.recorder import LISTERS, Recorder, absolute
from orun.executors.tracing.scope import Scope
from orun.fs import observed_state
from orun.fs.observed_state import appearance

LSTAT: Mapping[str, bool] = {"size": True, "link": True}
# Module, function, and how much it asks.
QUESTIONS: tuple[tuple[ModuleType, str, Mapping[str, bool]], ...] = (
    (os, "stat", {"size": True}),
    (os, "lstat", LSTAT),
    (os, "access", {}),
    (os, "readlink", {"target": True}),
    (os.path, "lexists", {}),
    (os.path, "islink", {"link": True}),
)
LINKS = {"link", "target"}
# Functions of `HELPERS` that ask for less than what `stat` tells.
THERE = frozenset(
    {"exists", "isfile", "isdir", "ismount", "is_file", "is_dir", "is_mount", "is_socket", "is_fifo",
     "is_block_device", "is_char_device", "samefile", "resolve", "select_exists"}
)  # fmt: skip
SUPPORTS = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids)
OURS = (str(Path(executors.__file__).parent), observed_state.__file__)  # code that asks while it notes
PATHS = {"posixpath", "genericpath"}  # functions of `os.path`
HELPERS = LISTERS | PATHS | {__name__}  # modules that ask for their callers


class Probes:
    """What the process of a stage has asked for.

    Args:
        recorder: what was opened, listed and made besides: there is no need to note that again.

    Attributes:
        found: absolute path -> what was there when so much was first asked (see `orun.fs.observed_state.appearance`).
    """

    def __init__(self, recorder: Recorder) -> None:
        self.found: dict[str, str] = {}
        self._asked: dict[str, dict[str, bool]] = {}
        self._scope: Scope | None = None
        self._recorder = recorder

    def install(self) -> None:
        """Have questions told to this object."""
        for module, name, asks in QUESTIONS:
            _replace(module, name, self._noting(getattr(module, name), asks))
        _replace(os.path, "realpath", self._resolving(os.path.realpath))
        _replace(os, "link", self._linking(os.link))

    def narrow(self, scope: Scope) -> None:
        """Begin to note them; the scope tells the user's files from others."""
        self._scope = scope

    def _noting(self, call: Callable[..., Any], asks: Mapping[str, bool]) -> Callable[..., Any]:
        @functools.wraps(call)
        def noted(path: Any, *arguments: Any, **options: Any) -> Any:
            if self._scope and not isinstance(path, int) and options.get("dir_fd") is None:
                follows = options.get("follow_symlinks", True)
                self._note(path, self._scope, asks if follows else {**asks, "link": True})
            return call(path, *arguments, **options)

        return noted

    def _resolving(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Whether the path itself is there, or a link; of what lies on the way to it, links alone are asked for."""

        @functools.wraps(call)
        def resolving(filename: Any, *arguments: Any, **options: Any) -> Any:
            if self._scope:
                self._note(filename, self._scope, {})
            return call(filename, *arguments, **options)

        return resolving

    def _linking(self, call: Callable[..., None]) -> Callable[..., None]:
        """A hard link takes a file's content without opening it, and changes its signature."""

        @functools.wraps(call)
        def linking(src: Any, *arguments: Any, **options: Any) -> None:
            call(src, *arguments, **options)
            if self._scope and options.get("src_dir_fd") is None:
                self._recorder.read(absolute(os.fsdecode(src)))

        return linking

    def _note(self, path: Any, scope: Scope, asks: Mapping[str, bool]) -> None:
        if asks is LSTAT and _is_on_the_way():
            return
        module, file = calling(HELPERS, depth=2)
        if module in FINDERS or file.startswith(OURS):
            return
        try:
            name = absolute(os.fsdecode(path))
        except (OSError, ValueError, TypeError):  # no path: the call itself says so
            return
        if name in self._recorder.written or (name in self._recorder.reads and not asks.keys() & LINKS):
            return
        before = self._asked.get(name)
        if "size" in asks and _is_about_presence():
            asks = {}
        if (before is None or asks.keys() - before.keys()) and _counts(name, file, scope, asks):
            self._asked[name] = {**(before or {}), **asks}
            self.found[name] = appearance(name, **self._asked[name])


def _counts(name: str, file: str, scope: Scope, asks: Mapping[str, bool]) -> bool:
    """Whether the result of a stage depends on a question that a file's code has asked."""
    own = scope.is_code(file) and scope.is_discovery(name)
    if "target" in asks:  # links differ from machine to machine, and one may lead to the project
        return own and not scope.is_above(name)
    return own or scope.is_code(name)


def _is_on_the_way() -> bool:
    """Whether `lstat` serves a function of `os.path`: `realpath` asks so of every folder above, and notes its links."""
    caller = sys._getframe(3)  # noqa: SLF001 - as below
    return caller.f_globals.get("__name__") in PATHS


def _is_about_presence() -> bool:
    """Whether the `stat` that is noted was called by a function that only sees what is there."""
    frame: FrameType | None = sys._getframe(3)  # noqa: SLF001 - the documented way to a caller's frame in CPython
    for _ in range(2):  # `Path.exists` by `Path.stat`
        if frame is None or frame.f_globals.get("__name__", "").partition(".")[0] not in HELPERS:
            return False
        if frame.f_code.co_name in THERE:
            return True
        frame = frame.f_back
    return False


def _replace(module: ModuleType, name: str, function: Callable[..., Any]) -> None:
    """Put a function in the place of another one, with what that is said to be able to."""
    call = getattr(module, name)
    for able in SUPPORTS:
        if call in able:
            able.add(function)
    setattr(module, name, function)
    for holder in [one for one in vars(glob).values() if isinstance(one, type)]:  # `Path.glob` asks by what it holds
        for attribute, held in list(vars(holder).items()):
            if isinstance(held, staticmethod) and held.__func__ is call:
                setattr(holder, attribute, staticmethod(function))
