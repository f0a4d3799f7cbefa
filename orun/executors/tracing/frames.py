"""Lookup of the calling code."""

from __future__ import annotations

import sys
from collections.abc import Collection

# Modules that search for modules; `user_modules.py` records these searches.
FINDERS = frozenset(
    {"importlib", "_frozen_importlib", "_frozen_importlib_external", "importlib_metadata", "pkgutil", "pkg_resources",
     "orun.executors.tracing.module_searches", "orun.executors.tracing.metadata_lookups"}
)  # fmt: skip


def find_caller(skipped: Collection[str], depth: int) -> tuple[str, str]:
    """Return top-level module and file of the nearest calling frame whose module does not act for its caller.

    Args:
        skipped: modules to skip, by their names or those of their top-level packages.
        depth: number of frames between this function's caller and the first frame to look at.
    """
    frame = sys._getframe(depth + 1)  # noqa: SLF001 - the documented way to a caller's frame in CPython
    while True:
        module = str(frame.f_globals.get("__name__", ""))
        top = module.partition(".")[0]
        if (top not in skipped and module not in skipped) or frame.f_back is None:
            return top, frame.f_code.co_filename
        frame = frame.f_back
