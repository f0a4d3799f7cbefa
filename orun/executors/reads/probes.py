"""Whether a file or folder is there, as Python code asks it without opening it (`os.path.exists`, `Path.is_dir`).

No audit hook tells of it: the functions that ask become functions that note what they are asked. Of what lies elsewhere
only the questions of the project's own code count; below the project those of libraries count too, which look there for
files that are optional.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from orun import executors, observe
from orun.executors.reads.frames import FINDERS, calling
from orun.executors.reads.recorder import LISTERS, Recorder, absolute
from orun.executors.reads.scope import Scope
from orun.observe import presence

QUESTIONS = ((os, ("stat", "access")), (os.path, ("lexists", "islink")))  # `lstat` serves `realpath`, which asks all
SUPPORTS = (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids)
OURS = (str(Path(executors.__file__).parent), observe.__file__)  # code that asks while it notes
HELPERS = LISTERS | {"posixpath", "genericpath"}  # modules that ask for their callers


class Probes:
    """What the process of a stage has asked for.

    Args:
        recorder: what was opened, listed and made besides: there is no need to note that again.

    Attributes:
        found: absolute path -> what was there when it was first asked for (see `orun.observe.presence`).
    """

    def __init__(self, recorder: Recorder) -> None:
        self.found: dict[str, str] = {}
        self._scope: Scope | None = None
        self._recorder = recorder

    def install(self) -> None:
        """Have questions told to this object."""
        for module, names in QUESTIONS:
            for name in names:
                _replace(module, name, self._noting(getattr(module, name)))
        _replace(os, "link", self._linking(os.link))

    def narrow(self, scope: Scope) -> None:
        """Begin to note them; the scope tells the user's files from others."""
        self._scope = scope

    def forget(self) -> None:
        """Be as after `install`."""
        self._scope = None
        self.found.clear()

    def _noting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def noted(path: Any, *arguments: Any, **options: Any) -> Any:
            if self._scope and not isinstance(path, int) and options.get("dir_fd") is None:
                self._note(path, self._scope)
            return call(path, *arguments, **options)

        return noted

    def _linking(self, call: Callable[..., None]) -> Callable[..., None]:
        """A hard link takes a file's content without opening it, and changes its signature."""

        @functools.wraps(call)
        def linking(src: Any, *arguments: Any, **options: Any) -> None:
            call(src, *arguments, **options)
            if self._scope and options.get("src_dir_fd") is None:
                self._recorder.read(absolute(os.fsdecode(src)))

        return linking

    def _note(self, path: Any, scope: Scope) -> None:
        module, file = calling(HELPERS, depth=2)
        if module in FINDERS or file.startswith(OURS):
            return
        try:
            name = absolute(os.fsdecode(path))
        except (OSError, ValueError, TypeError):  # no path: the call itself says so
            return
        if name in self.found or name in self._recorder.written or name in self._recorder.reads:
            return
        if scope.is_code(name) or (scope.is_code(file) and scope.is_discovery(name)):
            self.found[name] = presence(name)


def _replace(module: ModuleType, name: str, function: Callable[..., Any]) -> None:
    """Put a function in the place of another one, with what that is said to be able to."""
    call = getattr(module, name)
    for able in SUPPORTS:
        if call in able:
            able.add(function)
    setattr(module, name, function)
