"""Environment variables that the project's code looks up.

The type of `os.environ` is replaced in place, so that every reference to it records lookups. Passing on the environment
as a whole (`{**os.environ}`, `os.environ.copy()`) is no lookup; iterating over its items is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import KeysView, ValuesView
from types import CodeType

from orun.executors.tracing.frames import find_caller
from orun.executors.tracing.scope import Scope

# Modules that look up variables for their callers, such as HOME in `os.path.expanduser`.
HELPERS = frozenset({"collections", "gettext", "locale", "os", "pathlib", "posixpath", "string"})


class Variables:
    """Variables that the project's code looked up.

    Attributes:
        values: variable -> value when first looked up, or None if it was not set.
        own: variables that the process itself has set.
    """

    def __init__(self) -> None:
        self.values: dict[str, str | None] = {}
        self.own: set[str] = set()
        self._scope: Scope | None = None

    def install(self) -> None:
        """Record lookups from now on."""
        RecordingEnviron.variables = self
        os.environ.__class__ = RecordingEnviron
        os.environb.__class__ = RecordingBytesEnviron

    def narrow(self, scope: Scope) -> None:
        """Record lookups of the scope's code from now on."""
        self._scope = scope
        RecordingEnviron.copying.clear()

    def record_lookup(self, name: str, value: str | None) -> None:
        """Record a lookup, unless the process itself has set the variable."""
        if self._scope is None or name in self.values or name in self.own:
            return
        if self._scope.is_code(find_caller(HELPERS, depth=2)[1]):
            self.values[name] = value

    def record_c_lookup(self, name: str) -> str | None:
        """Record a lookup by C code; return the value."""
        value = os.environ.copy().get(name)
        if name not in self.own and name not in self.values:
            self.values[name] = value
        return value

    def is_code(self, file: str) -> bool:
        """Return whether a file is the project's code; False before the stage has begun."""
        return self._scope is not None and self._scope.is_code(file)


class RecordingEnviron(os._Environ[str]):  # noqa: SLF001 - the type of `os.environ` has no public name
    """Environment that records each lookup in `variables`."""

    variables: Variables
    copying: set[tuple[CodeType, int]] = set()  # noqa: RUF012 - there is one environment

    def __getitem__(self, key: str) -> str:
        if _find_instruction() in self.copying:
            return super().__getitem__(key)
        try:
            value = super().__getitem__(key)
        except KeyError:
            self.variables.record_lookup(key, None)
            raise
        self.variables.record_lookup(key, value)
        return value

    def keys(self) -> KeysView[str]:
        """Return the names."""
        # `{**os.environ}` and `dict(os.environ)` get the keys, and then each value at the same instruction.
        self.copying.add(_find_instruction())
        return super().keys()

    def values(self) -> ValuesView[str]:
        """Return the values."""
        # `os.posix_spawn(path, arguments, os.environ)` gets the keys, and then all values at the same instruction.
        if _find_instruction() in self.copying:
            return {key: super(RecordingEnviron, self).__getitem__(key) for key in self}.values()
        return super().values()

    def __setitem__(self, key: str, value: str) -> None:
        self.variables.own.add(key)
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self.variables.own.add(key)
        super().__delitem__(key)


class RecordingBytesEnviron(os._Environ[bytes]):  # noqa: SLF001 - as above
    """The same environment as bytes."""

    def __getitem__(self, key: bytes) -> bytes:
        try:
            value = super().__getitem__(key)
        except KeyError:
            RecordingEnviron.variables.record_lookup(os.fsdecode(key), None)
            raise
        RecordingEnviron.variables.record_lookup(os.fsdecode(key), os.fsdecode(value))
        return value


def _find_instruction() -> tuple[CodeType, int]:
    """Return the instruction that called the calling method."""
    frame = sys._getframe(2)  # noqa: SLF001 - the documented way to a caller's frame in CPython
    return frame.f_code, frame.f_lasti
