"""Kinds that packages offer under the entry point group `orun.stages`, each imported only when it is used."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import traceback
from collections.abc import Collection, Iterator, Mapping
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
# Files of frames between orun and the package's code.
LOADING = (__file__, str(Path(importlib.__file__).parent), "<frozen ")


def find_entry_points() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the entry points by name, in order of names; several if several packages offer that kind."""
    from importlib.metadata import entry_points

    points: dict[str, tuple[EntryPoint, ...]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, _package(point))):
        points[point.name] = (*points.get(point.name, ()), point)
    return points


def load(points: tuple[EntryPoint, ...]) -> Kind:
    """Return the kind that the entry points of a name offer.

    Raises:
        Unknown: when there are several, or the package is broken.
    """
    point = points[0]
    if len(points) > 1:
        packages = [_package(point) for point in points]
        raise Unknown(
            f"the kind {point.name!r} is offered by {len(packages)} packages: {', '.join(packages)}",
            expected="a single package, because it decides what the stage does",
            hint=f"pip uninstall {packages[-1]}",
        )
    module = _load_module(point)
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


def load_all(library: Collection[str]) -> Iterator[Kind | Unknown]:
    """Yield every kind that packages offer, or the error why it cannot be used.

    Args:
        library: names of orun's own kinds, which come before a plug-in's.
    """
    for name, points in find_entry_points().items():
        try:
            yield _refuse_name(points[0]) if name in library else load(points)
        except Unknown as error:
            yield error


def _refuse_name(point: EntryPoint) -> Unknown:
    why = "orun has a kind of that name"
    hint = f"rename its entry point in the group {GROUP}"
    return Unknown(f"the kind {point.name!r} of the package {_package(point)} cannot be used: {why}", hint=hint)


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value


def _load_module(point: EntryPoint) -> ModuleType:
    distrust_package(point.module.partition(".")[0])
    try:
        module = point.load()
    except Exception as error:  # importing a plug-in may raise any error
        raise _broken(point, _describe(error), show="") from error
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


def _describe(error: Exception) -> str:
    """Return the error, and its location in the package's own code."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} at {near(error.filename)}:{error.lineno}"
    frames = reversed(traceback.extract_tb(error.__traceback__))
    own = next((frame for frame in frames if not frame.filename.startswith(LOADING)), None)
    location = f" at {near(own.filename)}:{own.lineno}" if own else ""
    return f"{type(error).__name__}: {error}{location}"


def _broken(point: EntryPoint, why: str, show: str = " as it; print(it.__file__, dir(it))") -> Unknown:
    """Return the error of a broken kind; the hint for an editable package shows the import error or its content."""
    from orun.environment.install_commands import upgrade_command

    package = _package(point)
    own = point.dist is not None and point.dist.read_text("direct_url.json") is not None
    return Unknown(
        f"the kind {point.name!r} of the package {package} cannot be used: {why}",
        hint=f"python -c 'import {point.module}{show}'" if own else upgrade_command(package),
    )
