"""Packages that a stage needs because of its parameters, beyond those of its kind."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from orun.stages._data import packages
from orun.stages._data.source import Examples, Source
from orun.stages.params import build


def list_required_packages(module: ModuleType, values: Mapping[str, Any], root: Path) -> Mapping[str, str]:
    """Return the reason for each package, by distribution, with alternatives as in `Spec.tools`."""
    params = build(module.Params, values)
    required: dict[str, str] = {}
    if hasattr(module, "packages"):
        required |= module.packages(params, root)
    for examples in _iter_datasets(params):
        required |= packages.list_packages(root, examples)
    return required


def _iter_datasets(params: Any) -> Iterator[Examples]:
    """Yield the datasets that parameters name."""
    for name, hint in typing.get_type_hints(type(params)).items():
        value = getattr(params, name)
        if Source in typing.get_args(hint) and value is not None:
            yield value
