"""Python's byte code, where the content of a module counts and not the version of its package.

Python goes by the size of a source and by the second of its last change, which another text may have as well: after two
edits within a second, or where times are copied with the files, it runs the one while the digest is of the other.
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
    """Compile modules from their sources in this process from now on, whatever byte code there is.

    Args:
        doubted: tells which, by the module's name and the path of its source.
    """
    stats = SourceFileLoader.path_stats

    def path_stats(self: SourceFileLoader, path: str) -> Mapping[str, float]:
        if doubted(self.name, path):
            raise OSError(f"the byte code of {path} is not used")
        return stats(self, path)

    SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign]  # asked before byte code is looked for


@functools.cache
def distrust_package(package: str) -> None:
    """Do so for the modules of a package whose sources may have changed since."""
    distrust(lambda name, path: name.partition(".")[0] == package and may_be_stale(path))


def may_be_stale(path: str, compiled: str = "") -> bool:
    """Whether a source may have changed since its byte code was made, where there is any.

    Args:
        path: the source.
        compiled: the byte code, when it is not that of this process: each Python and each level of optimisation has
            its own.
    """
    try:
        made = os.stat(compiled or cache_from_source(path)).st_mtime_ns
    except FileNotFoundError:
        return False
    return os.stat(path).st_ctime_ns + CLOCK >= made
