"""Seeds of the global random generators of libraries, including libraries imported later."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from orun.executors.local.import_hooks import run_when_loaded

SEEDERS: dict[str, Callable[[Any, int], object]] = {
    "random": lambda module, seed: module.seed(seed),
    "numpy.random": lambda module, seed: module.seed(seed),
    "torch": lambda module, seed: module.manual_seed(seed),
    "tensorflow": lambda module, seed: module.random.set_seed(seed),
}


def seed_all(seed: int) -> None:
    """Seed the generators of loaded libraries now, the others as soon as they are loaded."""
    run_when_loaded({name: partial(_seed, seeder, seed) for name, seeder in SEEDERS.items()})


def _seed(seeder: Callable[[Any, int], object], seed: int, module: Any) -> None:
    seeder(module, seed)
