"""Seeds of every generator of random numbers that a library keeps for all, those imported later included."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

SEEDERS: dict[str, Callable[[Any, int], object]] = {
    "random": lambda module, seed: module.seed(seed),
    "numpy.random": lambda module, seed: module.seed(seed),
    "torch": lambda module, seed: module.manual_seed(seed),
    "tensorflow": lambda module, seed: module.random.set_seed(seed),
}


def plant(seed: int) -> None:
    """Seed what is loaded, and the rest as soon as it is."""
    for name, seeder in SEEDERS.items():
        if name in sys.modules:
            seeder(sys.modules[name], seed)
    sys.meta_path.insert(0, _Seeding(seed))


class _Seeding:
    """Finds the modules in `SEEDERS` as the others do, with a loader that seeds them."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._asking = False

    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in SEEDERS or self._asking:
            return None
        self._asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking = False
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Loader", _SeedingLoader(spec.loader, self._seed))
        return spec


class _SeedingLoader:
    """Loads a module as its own loader does, then seeds it."""

    def __init__(self, loader: Loader, seed: int) -> None:
        self._loader = loader
        self._seed = seed

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = module.__loader__ = self._loader  # what the module is asked about itself, it answers as ever
        self._loader.exec_module(module)
        SEEDERS[module.__name__](module, self._seed)
