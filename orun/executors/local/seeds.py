"""Seeds of every generator of random numbers that a library keeps for all, those imported later included."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from orun.executors.local.import_hooks import when_loaded

SEEDERS: dict[str, Callable[[Any, int], object]] = {
    "random": lambda module, seed: module.seed(seed),
    "numpy.random": lambda module, seed: module.seed(seed),
    "torch": lambda module, seed: module.manual_seed(seed),
    "tensorflow": lambda module, seed: module.random.set_seed(seed),
}


def plant(seed: int) -> None:
    """Seed what is loaded, and the rest as soon as it is."""
    when_loaded({name: partial(_seed, seeder, seed) for name, seeder in SEEDERS.items()})


def _seed(seeder: Callable[[Any, int], object], seed: int, module: Any) -> None:
    seeder(module, seed)
