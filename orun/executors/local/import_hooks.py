"""Import hooks: functions that run as soon as a module has been loaded."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

Action = Callable[[ModuleType], object]


def run_when_loaded(actions: Mapping[str, Action]) -> None:
    """Run an action on each module of these names: now if it is loaded, otherwise once it is."""
    for name, action in actions.items():
        if name in sys.modules:
            action(sys.modules[name])
    sys.meta_path.insert(0, _Finder(actions))


class _Finder:
    """Finder that wraps the loaders of these modules."""

    def __init__(self, actions: Mapping[str, Action]) -> None:
        self._actions = actions
        self._searching = False

    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self._actions or self._searching:
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Loader", _Loader(spec.loader, self._actions[name]))
        return spec


class _Loader:
    """Loader that runs an action after the module's own loader."""

    def __init__(self, loader: Loader, action: Action) -> None:
        self._loader = loader
        self._action = action

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = module.__loader__ = self._loader  # for code that asks the module for its loader
        self._loader.exec_module(module)
        self._action(module)
