"""Store of results: objects by content, actions by key, checkouts, runs and locks. The file system is the truth."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orun.store.records import Action, ActionSet, Entry, ImplicitDependencies, Tree, UndeclaredWrite
    from orun.store.stat_cache import StatCache
    from orun.store.store import Store

__all__ = ["Action", "ActionSet", "Entry", "ImplicitDependencies", "StatCache", "Store", "Tree", "UndeclaredWrite"]

_HOMES = {
    "orun.store.records": ("Action", "ActionSet", "ImplicitDependencies", "Entry", "UndeclaredWrite", "Tree"),
    "orun.store.stat_cache": ("StatCache",),
    "orun.store.store": ("Store",),
}


def __getattr__(name: str) -> Any:  # a run with nothing to do imports a few of these
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
