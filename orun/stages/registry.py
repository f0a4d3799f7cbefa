"""Which kinds there are: the library's by name, plug-ins by entry point, the user's own by file.

Finding a kind imports that kind's module and no other. A plug-in package is imported only when its kind is used.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from orun.spelling import Unknown, closest
from orun.stages import custom
from orun.stages.codefile import CodeFiles
from orun.stages.contract import Spec
from orun.stages.kind import Kind
from orun.stages.params import build, params_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "orun.stages"
BUILTIN: tuple[str, ...] = (
    "convert/torch",
    "convert/tensorflow",
    "convert/sklearn",
    "convert/onnx",
    "convert/opset",
    "check/model",
    "check/coverage",
    "optimize/simplify",
    "optimize/shapes",
    "optimize/transformer",
    "optimize/graph",
    "optimize/float16",
    "optimize/layout",
    "optimize/prune",
    "optimize/python",
    "compile/engine",
    "compile/mobile",
    "quantize/dynamic",
    "quantize/static",
    "quantize/weights",
    "quantize/qat",
    "quantize/tune",
    "quantize/debug",
    "measure/accuracy",
    "measure/latency",
    "measure/memory",
    "measure/load",
    "measure/profile",
    "measure/size",
    "measure/startup",
    "release/metadata",
    "release/card",
    "release/bundle",
    "release/serve-check",
    "release/publish",
    "release/triton",
)
FILE_KIND = re.compile(r".+\.py:[A-Za-z_][A-Za-z0-9_]*")


def find(uses: str, root: Path, files: CodeFiles | None = None) -> Kind:
    """The kind of that name.

    Args:
        uses: `folder/file` of the library, `./file.py:function`, or the name of a plug-in's entry point.
        root: the folder that a file is relative to.
        files: where the code files that were looked into are kept.

    Raises:
        Unknown: when there is none, or the package that offers it is broken.
        PipelineError: when the user's function is not declared well; the places are in its file.
    """
    if FILE_KIND.fullmatch(uses):
        return custom.read(uses, root, files or CodeFiles())
    return _built_in(uses) if uses in BUILTIN else _plug_in(uses)


def all_kinds() -> tuple[Kind, ...]:
    """The kinds of the library, in order."""
    return tuple(_built_in(name) for name in BUILTIN)


def module_of(name: str) -> ModuleType:
    """The module of a kind of the library."""
    return importlib.import_module(f"orun.stages.{name.replace('/', '.').replace('-', '_')}")


@functools.cache
def _built_in(name: str) -> Kind:
    module = module_of(name)
    return Kind(
        name=name,
        origin="built-in",
        entry=module.__name__,
        doc=inspect.cleandoc(module.__doc__ or ""),
        params=params_of(module.Params),
        spec=module.SPEC,
        metrics=_metrics(module),
    )


def _plug_in(uses: str) -> Kind:
    from importlib.metadata import entry_points

    offered = {point.name: point for point in entry_points(group=GROUP)}
    if uses not in offered:
        raise Unknown(
            f"there is no kind of stage {uses!r}",
            expected=f"one of {', '.join((*BUILTIN, *offered))}, or ./file.py:function",
            suggestion=closest(uses, (*BUILTIN, *offered)),
            hint="orun stages",
        )
    point = offered[uses]
    package = point.dist.name if point.dist else point.value
    module = _loaded(point, package)
    return Kind(
        name=uses,
        origin="plug-in",
        entry=module.__name__,
        doc=inspect.cleandoc(module.__doc__ or ""),
        params=_params(module, uses, package),
        spec=module.SPEC,
        metrics=_metrics(module),
        distribution=package,
    )


def _loaded(point: EntryPoint, package: str) -> ModuleType:
    try:
        module = point.load()
    except Exception as error:  # a plug-in may raise anything when it is imported
        raise _broken(point.name, package, f"{type(error).__name__}: {error}") from error
    if not isinstance(module, ModuleType):
        raise _broken(point.name, package, f"{point.value} is not a module")
    if not isinstance(getattr(module, "SPEC", None), Spec):
        raise _broken(point.name, package, f"{point.value} has no SPEC of type orun.stages.contract.Spec")
    if not callable(getattr(module, "run", None)):
        raise _broken(point.name, package, f"{point.value} has no function run(context, params)")
    return module


def _params(module: ModuleType, uses: str, package: str) -> tuple[Any, ...]:
    if not dataclasses.is_dataclass(getattr(module, "Params", None)):
        raise _broken(uses, package, f"{module.__name__} has no dataclass Params")
    try:
        return params_of(module.Params)
    except (TypeError, NameError) as error:
        raise _broken(uses, package, f"Params: {error}") from error


def _broken(uses: str, package: str, why: str) -> Unknown:
    return Unknown(
        f"the kind {uses!r} of the package {package} cannot be used: {why}",
        hint=f"pip install --upgrade {package}",
    )


def _metrics(module: ModuleType) -> Callable[[Mapping[str, Any]], Collection[str] | None]:
    """The names of the metrics for resolved parameters; None while a required one is missing."""
    spec: Spec = module.SPEC
    declared = getattr(module, "metrics", None)
    if declared is None:
        return lambda _params: spec.metrics
    required = {param.name for param in params_of(module.Params) if param.required}
    return lambda params: declared(build(module.Params, params)) if required <= params.keys() else None
