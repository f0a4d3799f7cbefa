"""An ONNX Runtime session for a target, which is what the target says or an error: never silently the CPU.

ONNX Runtime names providers as available that cannot load, ignores most options it does not know, and falls back to the
CPU with a message on stderr. So what loaded, and where each node landed, is read back from the session itself.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orun.errors import UsageError
from orun.targets import Target

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, SessionOptions

CPU = "CPUExecutionProvider"
SHOWN = 5  # nodes named in a message
LEVELS: Mapping[str, str] = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}
MODES: Mapping[str, str] = {"sequential": "ORT_SEQUENTIAL", "parallel": "ORT_PARALLEL"}
ATTRIBUTES: Mapping[str, type] = {
    "enable_cpu_mem_arena": bool,
    "enable_mem_pattern": bool,
    "enable_mem_reuse": bool,
    "inter_op_num_threads": int,
    "intra_op_num_threads": int,
    "log_severity_level": int,
    "log_verbosity_level": int,
    "use_deterministic_compute": bool,
}
OPTIONS: tuple[str, ...] = (*ATTRIBUTES, "execution_mode", "free_dimension_overrides", "graph_optimization_level")

log = logging.getLogger(__name__)


def open_session(model: Path, target: Target, profile: str = "") -> InferenceSession:
    """A session of `model` that runs where `target` says.

    Args:
        model: an ONNX file; its external data lies beside it.
        target: providers in order of preference, session options by name (see `session_options`), and what to do when
            a node lands on the CPU although another provider comes first.
        profile: prefix of the profile that ONNX Runtime writes; none when empty.

    Raises:
        UsageError: when a provider is not in this build or did not load, an option is unknown, the model cannot be
            loaded, or `fallback: forbid-cpu` is broken.
    """
    import onnxruntime

    _require_built_in(target, onnxruntime.get_available_providers())
    options = session_options(target)
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    watched = target.fallback != "allow" and target.providers[0].name != CPU
    if watched:
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    providers = [(provider.name, dict(provider.options)) for provider in target.providers]
    try:
        # Without enable_fallback=0 the Python class catches the error of a provider and retries on the CPU.
        session = onnxruntime.InferenceSession(model, options, providers=providers, enable_fallback=0)
    except Exception as error:  # its errors share no base class but this
        raise UsageError(
            f"ONNX Runtime cannot open {model.name} for target '{target.name}'",
            why=_first_line(error),
            hint="see what this machine can run: orun doctor",
        ) from error
    _require_loaded(target, session.get_providers())
    if watched:
        _check_placement(target, session)
    return session


def session_options(target: Target) -> SessionOptions:
    """The target's session options as ONNX Runtime's own object.

    A name with a dot is a configuration entry (`session.disable_prepacking: 1`), of which ONNX Runtime ignores those
    that it does not know; every other name is one of `OPTIONS`.

    Raises:
        UsageError: when a name is unknown or its value has the wrong form.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    for name, value in target.session.items():
        if "." in name:
            options.add_session_config_entry(name, _config_text(value))
        elif name == "graph_optimization_level":
            level = _choice(target, name, value, LEVELS)
            options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        elif name == "execution_mode":
            options.execution_mode = getattr(onnxruntime.ExecutionMode, _choice(target, name, value, MODES))
        elif name == "free_dimension_overrides":
            for dimension, size in value.items():
                options.add_free_dimension_override_by_name(str(dimension), int(size))
        elif name in ATTRIBUTES:
            setattr(options, name, _typed(target, name, value))
        else:
            raise _unknown_option(target, name)
    return options


def _config_text(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _typed(target: Target, name: str, value: Any) -> Any:
    wanted = ATTRIBUTES[name]
    if type(value) is not wanted:
        raise UsageError(f"target '{target.name}': session option {name} must be {wanted.__name__}, not {value!r}")
    return value


def _choice(target: Target, name: str, value: Any, choices: Mapping[str, str]) -> str:
    if value not in choices:
        raise UsageError(
            f"target '{target.name}': session option {name} cannot be {value!r}",
            why=f"expected one of {', '.join(choices)}",
        )
    return choices[value]


def _unknown_option(target: Target, name: str) -> UsageError:
    close = difflib.get_close_matches(name, OPTIONS, n=1)
    return UsageError(
        f"target '{target.name}': unknown session option {name}",
        why=f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(OPTIONS))}",
        hint="a configuration entry of ONNX Runtime has a dot in its name, such as session.disable_prepacking",
    )


def _require_built_in(target: Target, available: Sequence[str]) -> None:
    missing = [provider.name for provider in target.providers if provider.name not in available]
    if missing:
        raise UsageError(
            f"target '{target.name}': {', '.join(missing)} is not in this build of ONNX Runtime",
            why=f"it has {', '.join(available)}",
            hint="install the build of ONNX Runtime that has it, then look again: orun doctor",
        )


def _require_loaded(target: Target, loaded: Sequence[str]) -> None:
    missing = [provider.name for provider in target.providers if provider.name not in loaded]
    if missing:
        raise UsageError(
            f"target '{target.name}': {', '.join(missing)} did not load; the session would run on {', '.join(loaded)}",
            why="a library or device that it needs is not on this machine; ONNX Runtime's own message is in the log",
            hint="see what this machine can run: orun doctor",
        )


def _check_placement(target: Target, session: InferenceSession) -> None:
    nodes = _cpu_nodes(session.get_provider_graph_assignment_info())
    if not nodes:
        return
    count = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    shown = ", ".join(nodes[:SHOWN]) + (f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else "")
    if target.fallback == "warn":
        log.warning("target '%s': %s on the CPU: %s", target.name, count, shown)
        return
    raise UsageError(
        f"target '{target.name}' forbids the CPU, and {count} landed on it",
        why=shown,
        hint="allow it with `fallback: warn`, or change the model so that the provider takes these nodes",
    )


def _cpu_nodes(subgraphs: Iterable[Any]) -> list[str]:
    return [
        f"{node.name or '(unnamed)'} ({node.op_type})"
        for subgraph in subgraphs
        if subgraph.ep_name == CPU
        for node in subgraph.get_nodes()
    ]


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
