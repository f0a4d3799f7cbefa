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


def asked(module: ModuleType, values: Mapping[str, Any], root: Path) -> Mapping[str, str]:
    """What asks for each of them, by distribution, alternatives as in `Spec.tools`.

    Args:
        module: of the kind; its function `packages(params, root)` says what it knows, where it has one.
        values: the resolved parameters of the stage.
        root: the folder that paths are relative to.
    """
    params = build(module.Params, values)
    own: Mapping[str, str] = module.packages(params, root) if hasattr(module, "packages") else {}
    found = dict(own)
    for examples in _datasets(params):
        found |= packages.reading(root, examples)
    return found


def _datasets(params: Any) -> Iterator[Examples]:
    """The datasets that parameters name."""
    for name, hint in typing.get_type_hints(type(params)).items():
        value = getattr(params, name)
        if Source in typing.get_args(hint) and value is not None:
            yield value
