"""Lookup of the code that is calling."""

from __future__ import annotations

import sys
from collections.abc import Collection

# Modules that look for modules: `modules.py` notes better what was found, and where in vain.
FINDERS = frozenset(
    {"importlib", "_frozen_importlib", "_frozen_importlib_external", "importlib_metadata", "pkgutil", "pkg_resources",
     "orun.executors.tracing.imports", "orun.executors.tracing.versions"}
)  # fmt: skip


def calling(passed: Collection[str], depth: int) -> tuple[str, str]:
    """Top-level module and file of the nearest calling frame whose module does not merely act for its caller.

    Args:
        passed: modules to pass over, by their names or those of their packages at the top.
        depth: how many frames lie between that of this function and the first to look at.
    """
    frame = sys._getframe(depth + 1)  # noqa: SLF001 - the documented way to a caller's frame in CPython
    while True:
        module = str(frame.f_globals.get("__name__", ""))
        top = module.partition(".")[0]
        if (top not in passed and module not in passed) or frame.f_back is None:
            return top, frame.f_code.co_filename
        frame = frame.f_back
