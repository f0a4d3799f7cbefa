"""Kinds that packages offer under the entry point group `orun.stages`, each imported only when it is asked for."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from orun.core.serialization import decode, encode
from orun.stages.bytecode import distrust_package
from orun.stages.contract import Spec
from orun.stages.kind import Kind, metrics_of
from orun.stages.params import params_of
from orun.text.suggestions import Unknown, near

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "orun.stages"
# Files of the frames that stand between us and the package's code.
LOADING = (__file__, str(Path(importlib.__file__).parent), "<frozen ")


def offered() -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points by name, in the order of names; more than one where several packages offer that kind."""
    from importlib.metadata import entry_points

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda one: (one.name, _package(one))):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def load(points: tuple[EntryPoint, ...]) -> Kind:
    """The kind that entry points of one name offer.

    Raises:
        Unknown: when they are several, or the package is broken.
    """
    point, *others = points
    if others:
        packages = [_package(one) for one in points]
        raise Unknown(
            f"the kind {point.name!r} is offered by {len(packages)} packages: {', '.join(packages)}",
            expected="one of them, as it decides what the stage does",
            hint=f"pip uninstall {packages[-1]}",
        )
    module = _loaded(point)
    return Kind(
        name=point.name,
        origin="plug-in",
        entry=module.__name__,
        doc=inspect.cleandoc(module.__doc__ or ""),
        params=_params(module, point),
        spec=_spec(module, point),
        metrics=metrics_of(module),
        distribution=_package(point),
    )


def every() -> Iterator[Kind | Unknown]:
    """Every kind that is offered, or why it cannot be used."""
    for points in offered().values():
        try:
            yield load(points)
        except Unknown as error:
            yield error


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value


def _loaded(point: EntryPoint) -> ModuleType:
    distrust_package(point.module.partition(".")[0])
    try:
        module = point.load()
    except Exception as error:  # a plug-in may raise anything when it is imported
        raise _broken(point, _told(error), show="") from error
    if not isinstance(module, ModuleType):
        raise _broken(point, f"{point.value} is not a module")
    if not isinstance(getattr(module, "SPEC", None), Spec):
        raise _broken(point, f"{point.value} has no SPEC of type orun.stages.contract.Spec")
    if not callable(getattr(module, "run", None)):
        raise _broken(point, f"{point.value} has no function run(context, params)")
    return module


def _spec(module: ModuleType, point: EntryPoint) -> Spec:
    try:
        return decode(Spec, encode(module.SPEC))
    except (ValueError, TypeError) as error:
        raise _broken(point, f"SPEC: {error}") from error


def _params(module: ModuleType, point: EntryPoint) -> tuple[Any, ...]:
    if not dataclasses.is_dataclass(getattr(module, "Params", None)):
        raise _broken(point, f"{module.__name__} has no dataclass Params")
    try:
        return params_of(module.Params)
    except (TypeError, NameError) as error:
        raise _broken(point, f"Params: {error}") from error


def _told(error: Exception) -> str:
    """What was raised, and where in the package's own code."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} at {near(error.filename)}:{error.lineno}"
    frames = reversed(traceback.extract_tb(error.__traceback__))
    place = next(
        (f" at {near(one.filename)}:{one.lineno}" for one in frames if not one.filename.startswith(LOADING)), ""
    )
    return f"{type(error).__name__}: {error}{place}"


def _broken(point: EntryPoint, why: str, show: str = " as it; print(it.__file__, dir(it))") -> Unknown:
    """The error of a kind; who works on its package is told how to see what importing it raises, or what it holds."""
    package = _package(point)
    own = point.dist is not None and point.dist.read_text("direct_url.json") is not None
    return Unknown(
        f"the kind {point.name!r} of the package {package} cannot be used: {why}",
        hint=f"python -c 'import {point.module}{show}'" if own else f"pip install --upgrade {package}",
    )
