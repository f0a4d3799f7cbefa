"""Distributions whose metadata the project's code asks for by name (`importlib.metadata.version`), imported or not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from orun.environment import distributions
from orun.executors.local.import_hooks import when_loaded
from orun.executors.tracing.frames import FINDERS, calling
from orun.executors.tracing.scope import Scope


class Versions:
    """What the process of a stage has asked for.

    Attributes:
        found: distribution -> version, `orun.environment.distributions.ABSENT` for one that is not installed.
    """

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._scope: Scope | None = None

    def narrow(self, scope: Scope) -> None:
        """Begin to note them; the scope tells the project's code."""
        self._scope = scope
        when_loaded({"importlib.metadata": self._watch})

    def _watch(self, metadata: Any) -> None:
        discover = metadata.Distribution.discover

        def noting(_: type, /, **asked: Any) -> Iterable[Any]:
            self._note(str(asked.get("name") or ""), calling(FINDERS, depth=1)[1])
            return discover(**asked)  # type: ignore[no-any-return]  # it is the library's own

        metadata.Distribution.discover = classmethod(noting)

    def _note(self, name: str, file: str) -> None:
        normal = distributions.normalise(name)
        if name and self._scope and self._scope.is_code(file) and normal not in self.found:
            self.found[normal] = distributions.installed().get(normal, distributions.ABSENT)
