"""Lookups of a distribution's metadata by name (`importlib.metadata.version`), by any code, imported or not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from orun.environment import distributions
from orun.executors.local.import_hooks import run_when_loaded
from orun.executors.tracing.frames import FINDERS, find_caller

LIBRARIES = ("importlib.metadata", "importlib_metadata")  # the second is the backport


class MetadataLookups:
    """Lookups from `install` on, including those of libraries as a fork server imports them.

    Attributes:
        versions: distribution -> version, `orun.environment.distributions.ABSENT` if it is not installed.
    """

    def __init__(self) -> None:
        self.versions: dict[str, str] = {}

    def install(self) -> None:
        """Record lookups from now on."""
        run_when_loaded(dict.fromkeys(LIBRARIES, self._watch))

    def _watch(self, metadata: Any) -> None:
        discover = metadata.Distribution.discover

        def record_and_discover(_: type, /, **options: Any) -> Iterable[Any]:
            self._record(str(options.get("name") or ""), find_caller(FINDERS, depth=1)[0])
            return discover(**options)  # type: ignore[no-any-return]  # it is the library's own

        metadata.Distribution.discover = classmethod(record_and_discover)

    def _record(self, name: str, caller: str) -> None:
        normal = distributions.normalize(name)
        if name and caller != "orun" and normal not in self.versions:
            self.versions[normal] = distributions.list_installed().get(normal, distributions.ABSENT)
