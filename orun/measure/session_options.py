"""Session options of a target as ONNX Runtime's own object."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from orun.core.targets import EXTENSIONS, Target
from orun.errors import MissingPackages, UsageError

if TYPE_CHECKING:
    from onnxruntime import SessionOptions

ENUMS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "graph_optimization_level": (
        "GraphOptimizationLevel",
        {
            "disable": "ORT_DISABLE_ALL",
            "basic": "ORT_ENABLE_BASIC",
            "extended": "ORT_ENABLE_EXTENDED",
            "layout": "ORT_ENABLE_LAYOUT",
            "all": "ORT_ENABLE_ALL",
        },
    ),
    "execution_mode": ("ExecutionMode", {"sequential": "ORT_SEQUENTIAL", "parallel": "ORT_PARALLEL"}),
    "execution_order": (
        "ExecutionOrder",
        {"default": "DEFAULT", "priority": "PRIORITY_BASED", "memory": "MEMORY_EFFICIENT"},
    ),
}
"""ONNX Runtime's enumeration of an option, with its member for each value in a pipeline file."""
ATTRIBUTES = (
    "enable_cpu_mem_arena",
    "enable_mem_pattern",
    "enable_mem_reuse",
    "inter_op_num_threads",
    "intra_op_num_threads",
    "log_severity_level",
    "log_verbosity_level",
    "use_deterministic_compute",
)
"""Options that take the value of a pipeline file."""
GROWTH: Mapping[str, int] = {"power-of-two": 0, "as-requested": 1}  # ONNX Runtime's numbers


def build_session_options(target: Target) -> SessionOptions:
    """Return the target's session options as ONNX Runtime's own object.

    A name with a dot is a configuration entry (`session.disable_prepacking: 1`). Any other name is in `OPTIONS`: the
    pipeline file is checked when it is read.

    Raises:
        UsageError: if a library of custom operators cannot be loaded.
        MissingPackages: if onnxruntime-extensions is not installed.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    for name, value in target.session.items():
        if value is None:
            continue
        if "." in name:
            text = str(int(value)) if isinstance(value, bool) else str(value)
            options.add_session_config_entry(name, text)
        elif name in SETTERS:
            SETTERS[name](options, target, value)
        elif name in ENUMS:
            enum, members = ENUMS[name]
            setattr(options, name, getattr(getattr(onnxruntime, enum), members[value]))
        else:
            setattr(options, name, value)
    return options


def list_disabled_optimizers(target: Target) -> list[str]:
    """Return the optimizers that the target leaves out; an argument of the session, not one of its options."""
    return list(target.session.get("disabled_optimizers") or ())


def _set_dimensions(options: SessionOptions, _target: Target, value: Mapping[str, Any]) -> None:
    for dimension, size in value.items():
        options.add_free_dimension_override_by_name(str(dimension), int(size))


def _set_denormals(options: SessionOptions, _target: Target, value: bool) -> None:
    options.add_session_config_entry("session.set_denormal_as_zero", str(int(value)))


def _register_libraries(options: SessionOptions, target: Target, value: list[str]) -> None:
    for library in value:
        path = _find_extensions(target) if library == EXTENSIONS else library
        try:
            options.register_custom_ops_library(path)
        except Exception as error:  # its errors share no base class but this
            raise UsageError(
                f"target '{target.name}': the custom operators of {library} cannot be loaded",
                why=str(error).strip().partition("\n")[0],
            ) from error


def _find_extensions(target: Target) -> str:
    if importlib.util.find_spec("onnxruntime_extensions") is None:
        raise MissingPackages(f"target '{target.name}': {EXTENSIONS} is not installed", [EXTENSIONS])
    return str(importlib.import_module("onnxruntime_extensions").get_library_path())


def _set_arena(options: SessionOptions, _target: Target, value: Mapping[str, Any]) -> None:
    """Replace the session's arena by the one with these limits that all such sessions of a process share."""
    limits = {name: item for name, item in value.items() if item is not None}
    if "extend" in limits:
        limits["arena_extend_strategy"] = GROWTH[limits.pop("extend")]
    _make_arena(tuple(sorted(limits.items())))
    options.add_session_config_entry("session.use_env_allocators", "1")


@functools.lru_cache
def _make_arena(limits: tuple[tuple[str, int], ...]) -> None:
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import OrtMemoryInfo, OrtMemType

    kind = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    memory = OrtMemoryInfo("Cpu", kind, 0, OrtMemType.DEFAULT)
    onnxruntime.create_and_register_allocator(memory, onnxruntime.OrtArenaCfg(dict(limits)))


SETTERS: Mapping[str, Callable[[SessionOptions, Target, Any], None]] = {
    "cpu_arena": _set_arena,
    "custom_op_libraries": _register_libraries,
    "denormals_as_zero": _set_denormals,
    "disabled_optimizers": lambda _options, _target, _value: None,  # see `list_disabled_optimizers`
    "free_dimension_overrides": _set_dimensions,
}
OPTIONS = (*ATTRIBUTES, *ENUMS, *SETTERS)
