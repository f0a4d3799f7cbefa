"""Kinds that packages offer under the entry point group `orun.stages`, each imported only when it is used."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection, Iterator
from types import ModuleType
from typing import TYPE_CHECKING

from orun.core.serialization import decode, encode
from orun.environment.entry_points import Group, name_package
from orun.stages.contract import Spec
from orun.stages.kind import Kind, bind_metrics
from orun.stages.params import list_params
from orun.text.suggestions import Unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

KINDS = Group("orun.stages", "kind")


def load(points: tuple[EntryPoint, ...]) -> Kind:
    """Return the kind that the entry points of a name offer.

    Raises:
        Unknown: when there are several, or the package is broken.
    """
    point, module = points[0], KINDS.load(points)
    if why := _explain_no_kind(module, point.value):
        raise KINDS.build_broken_error(point, why)
    try:
        spec = decode(Spec, encode(module.SPEC))
    except (ValueError, TypeError) as error:
        raise KINDS.build_broken_error(point, f"SPEC: {error}") from error
    try:
        params = list_params(module.Params)
    except (TypeError, NameError) as error:
        raise KINDS.build_broken_error(point, f"Params: {error}") from error
    return Kind(
        name=point.name,
        origin="plug-in",
        entry=module.__name__,
        doc=inspect.cleandoc(module.__doc__ or ""),
        params=params,
        spec=spec,
        metrics=bind_metrics(module),
        distribution=name_package(point),
    )


def load_all(library: Collection[str]) -> Iterator[Kind | Unknown]:
    """Yield every kind that packages offer, or the error why it cannot be used."""
    for name, points in KINDS.find().items():
        try:
            yield KINDS.build_shadowed_error(points[0]) if name in library else load(points)
        except Unknown as error:
            yield error


def _explain_no_kind(module: object, value: str) -> str:
    """Return what the object of an entry point lacks to be the module of a kind; empty if it lacks nothing."""
    if not isinstance(module, ModuleType):
        return f"{value} is not a module"
    if not isinstance(getattr(module, "SPEC", None), Spec):
        return f"{value} has no SPEC of type orun.stages.contract.Spec"
    if not callable(getattr(module, "run", None)):
        return f"{value} has no function run(context, params)"
    if not dataclasses.is_dataclass(getattr(module, "Params", None)):
        return f"{value} has no dataclass Params"
    return ""
