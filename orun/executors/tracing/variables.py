"""Environment variables that the project's code looks up.

`os.environ` becomes a mapping that notes look-ups, in place, so that every reference to it does. Handing the
environment on as a whole (`{**os.environ}`, `os.environ.copy()`) is not looking it up; going through its items is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import KeysView, ValuesView
from types import CodeType

from orun.executors.tracing.frames import calling
from orun.executors.tracing.scope import Scope

# Modules whose code looks up for its caller: `os.path.expanduser` of HOME, for one.
HELPERS = frozenset({"collections", "gettext", "locale", "os", "pathlib", "posixpath", "string"})


class Variables:
    """The variables that the project's code looked up.

    Attributes:
        found: variable -> value when it was first looked up, or None when it was not set.
    """

    def __init__(self) -> None:
        self.found: dict[str, str | None] = {}
        self.own: set[str] = set()
        self._scope: Scope | None = None

    def install(self) -> None:
        """Have look-ups told to this object."""
        NotedEnviron.notes = self
        os.environ.__class__ = NotedEnviron
        os.environb.__class__ = NotedBytes

    def narrow(self, scope: Scope) -> None:
        """Begin to note them; the scope tells the project's code."""
        self._scope = scope
        NotedEnviron.handed_on.clear()

    def looked_up(self, name: str, value: str | None) -> None:
        """A variable is looked up now; what the process has set itself is its own."""
        if self._scope is None or name in self.found or name in self.own:
            return
        if self._scope.is_code(calling(HELPERS, depth=2)[1]):
            self.found[name] = value

    def taken(self, name: str) -> str | None:
        """Note a variable that C takes from the environment; return its value."""
        value = os.environ.copy().get(name)
        if name not in self.own and name not in self.found:
            self.found[name] = value
        return value

    def is_code(self, file: str) -> bool:
        """Return whether a file is of the project's code; none is before the stage has begun."""
        return self._scope is not None and self._scope.is_code(file)


class NotedEnviron(os._Environ[str]):  # noqa: SLF001 - the type of `os.environ` has no public name
    """The environment, telling `notes` of each look-up."""

    notes: Variables
    handed_on: set[tuple[CodeType, int]] = set()  # noqa: RUF012 - there is one environment

    def __getitem__(self, key: str) -> str:
        if _place() in self.handed_on:
            return super().__getitem__(key)
        try:
            value = super().__getitem__(key)
        except KeyError:
            self.notes.looked_up(key, None)
            raise
        self.notes.looked_up(key, value)
        return value

    def keys(self) -> KeysView[str]:
        """Its names."""
        # `{**os.environ}` and `dict(os.environ)` ask for the keys, and then for each value from one and the same place.
        self.handed_on.add(_place())
        return super().keys()

    def values(self) -> ValuesView[str]:
        """Its values."""
        # `os.posix_spawn(path, arguments, os.environ)` asks for the names, and then for all values from the same place.
        if _place() in self.handed_on:
            return {key: super(NotedEnviron, self).__getitem__(key) for key in self}.values()
        return super().values()

    def __setitem__(self, key: str, value: str) -> None:
        self.notes.own.add(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self.notes.own.add(key)
        super().__delitem__(key)


class NotedBytes(os._Environ[bytes]):  # noqa: SLF001 - as above
    """The same environment as bytes."""

    def __getitem__(self, key: bytes) -> bytes:
        try:
            value = super().__getitem__(key)
        except KeyError:
            NotedEnviron.notes.looked_up(os.fsdecode(key), None)
            raise
        NotedEnviron.notes.looked_up(os.fsdecode(key), os.fsdecode(value))
        return value


def _place() -> tuple[CodeType, int]:
    """The instruction that called the method that calls this."""
    frame = sys._getframe(2)  # noqa: SLF001 - the documented way to a caller's frame in CPython
    return frame.f_code, frame.f_lasti
