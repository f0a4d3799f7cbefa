"""Distributions whose metadata is asked for by name (`importlib.metadata.version`), imported or not, by whoever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from orun.environment import distributions
from orun.executors.local.import_hooks import when_loaded
from orun.executors.tracing.frames import FINDERS, calling

LIBRARIES = ("importlib.metadata", "importlib_metadata")  # the latter brings the former to older versions of Python


class Versions:
    """What was asked for, from `install` on: what a library asks as a fork server loads it counts as well.

    Attributes:
        found: distribution -> version, `orun.environment.distributions.ABSENT` for one that is not installed.
    """

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def install(self) -> None:
        """Have questions told to this object."""
        when_loaded(dict.fromkeys(LIBRARIES, self._watch))

    def _watch(self, metadata: Any) -> None:
        discover = metadata.Distribution.discover

        def noting(_: type, /, **asked: Any) -> Iterable[Any]:
            self._note(str(asked.get("name") or ""), calling(FINDERS, depth=1)[0])
            return discover(**asked)  # type: ignore[no-any-return]  # it is the library's own

        metadata.Distribution.discover = classmethod(noting)

    def _note(self, name: str, caller: str) -> None:
        normal = distributions.normalise(name)
        if name and caller != "orun" and normal not in self.found:
            self.found[normal] = distributions.installed().get(normal, distributions.ABSENT)
