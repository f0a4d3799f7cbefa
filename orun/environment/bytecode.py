"""Protection against stale byte code of modules whose content is in a cache key.

Python recognizes stale byte code by the size and the second of the last change of the source. Another text can have
both: after two edits within a second, or when files are copied with their times. Python would then run the old text
while the digest is that of the new one.
"""
# ruff: noqa: PTH116  (strings: the import system works with them)

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from importlib.util import cache_from_source

from orun.fs.signatures import CLOCK


def distrust(doubted: Callable[[str, str], bool]) -> None:
    """Compile some modules from their sources in this process from now on, whatever byte code exists.

    Args:
        doubted: whether to do so for a module, by its name and the path of its source.
    """
    stats = SourceFileLoader.path_stats

    def path_stats(self: SourceFileLoader, path: str) -> Mapping[str, float]:
        if doubted(self.name, path):
            raise OSError(f"the byte code of {path} is not used")
        return stats(self, path)

    SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign]  # called before byte code is read


@functools.cache
def distrust_package(package: str) -> None:
    """Distrust the byte code of a package's modules whose sources may have changed since."""
    distrust(lambda name, path: name.partition(".")[0] == package and may_be_stale(path))


def may_be_stale(path: str, compiled: str = "") -> bool:
    """Return whether a source may have changed since its byte code was written; False without byte code.

    Args:
        path: the source.
        compiled: the byte code, when it is not that of this process; each Python and level of optimization has its own.
    """
    try:
        written = os.stat(compiled or cache_from_source(path)).st_mtime_ns
    except FileNotFoundError:
        return False
    return os.stat(path).st_ctime_ns + CLOCK >= written
