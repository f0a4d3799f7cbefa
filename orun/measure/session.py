"""ONNX Runtime session that runs as its target says, or an error: never silently on the CPU.

ONNX Runtime lists providers that cannot load, ignores most unknown options, and falls back to the CPU with a message on
stderr. Therefore the loaded providers and the placement of nodes are read back from the session.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orun.core.targets import Target
from orun.errors import UsageError
from orun.measure import placement
from orun.measure.engines import add_engine_options
from orun.measure.extension_operators import add_extensions
from orun.measure.framework_model import FrameworkSession, Opener
from orun.measure.plugins import CPU, is_plugin, list_available, make_session
from orun.measure.session_options import build_session_options, list_disabled_optimizers
from orun.measure.session_settings import add_settings

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

PREFIX = re.compile(  # of its messages: code, path of the model, place in its own source
    r"^\[ONNXRuntimeError\] : \d+ : \w+ : (Load model from (?P<path>.*?) failed: ?)?"
    r"(/\S+\.(cc|h|cpp):\d+ .*?\)( const)? (?=\S))?"
)
NO_KERNEL = "Could not find an implementation"
LACKING = re.compile(rf"{NO_KERNEL} for (?P<operator>\w+)\(\d+\) node with name '(?P<name>.*)'")
DOCTOR = "see what this machine can run: orun doctor"
HINTS = {  # by what ONNX Runtime says
    # Up to 1.31 it replaces QDQ pairs of 8-bit floats by integer operators, which do not have that type.
    "tensor(float8": (
        "in the target, `session: {session.disable_quant_qdq: 1}`: ONNX Runtime's CPU computes 8-bit floats in float"
    ),
    "official support for domain": (
        "export it with an older operator set, lower it by a stage `convert/opset`, or upgrade ONNX Runtime"
    ),
    NO_KERNEL: (
        "it has most kernels for float32: convert the model in that type, in PyTorch by `return module.float()` and no "
        "other type in the module's code"
    ),
    "Unsupported model IR version": (
        "save it by an older onnx, lower its ir_version if it uses nothing newer, or upgrade ONNX Runtime"
    ),
    "is not a registered function/op": (
        "operators of com.microsoft need a newer ONNX Runtime, others the library that defines them: name it in the "
        "target, `session: {custom_op_libraries: [FILE]}`, and leave out stages without a target"
    ),
    "Failed to construct locale": (
        "install the language that the model's StringNormalizer names, or convert the model anew with a language that "
        "all systems have; in convert/sklearn, `options: {locale: C.UTF-8}`"
    ),
}


def open_session(
    model: Path, target: Target, profile: str = "", *, watched: bool = False, checked: bool = True
) -> InferenceSession:
    """Open a session of `model` that runs as `target` and the files beside the model say.

    The session takes the settings of `optimize/session`, finds the files of an engine, and loads the library of the
    operators of onnxruntime-extensions where the model has such.

    Args:
        model: an ONNX file, with its external data and an engine's files beside it.
        target: providers in order of preference, session options by name (see `build_session_options`), and what to do
            if a node lands on the CPU although another provider comes first.
        profile: prefix of the profile that ONNX Runtime writes; none if empty.
        watched: whether the session records where each node landed, for `placement.read_placement`.
        checked: whether the placement is checked against the target's `fallback`; if not, call `check_placement`.

    Raises:
        UsageError: if a provider is not in this build or did not load, the model cannot be loaded, `fallback:
            forbid-cpu` is violated, or the target belongs to another environment, which `orun.measure.foreign_process`
            serves.
    """
    if target.interpreter:
        raise UsageError(
            f"target '{target.name}' has an environment of its own, and this stage opens models in its own process",
            hint="run the stage in that environment: `environment:` beside `uses`",
        )
    target = add_extensions(model, add_engine_options(model, add_settings(model, target)))
    _require_available(target)
    options = build_session_options(target)
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    if watched or _may_fall_back(target):
        placement.watch(options)
    try:
        session = make_session(model, options, target.providers, disabled_optimizers=list_disabled_optimizers(target))
    except UsageError:
        raise
    except Exception as error:  # its errors share no base class but this
        raise UsageError(
            f"ONNX Runtime cannot open {model.name} for target '{target.name}'",
            why=describe_refusal(error) + _describe_types(model, str(error)),
            hint=next((hint for text, hint in HINTS.items() if text in str(error)), DOCTOR),
        ) from error
    _require_loaded(target, session.get_providers())
    if checked:
        check_placement(session, target, model)
    return session


def describe_refusal(error: Exception) -> str:
    """Return why ONNX Runtime refuses a model: the first line without the code, and the end of the model's path."""
    return PREFIX.sub(_shorten_path, str(error).strip().partition("\n")[0])


def _describe_types(model: Path, refusal: str) -> str:
    """Return the types of the inputs for which ONNX Runtime has no kernel of a node, for the end of its refusal."""
    import onnx

    if not (lacking := LACKING.search(refusal)):
        return ""
    graph = onnx.shape_inference.infer_shapes(onnx.load(model, load_external_data=False)).graph
    types = {value.name: value.type.tensor_type.elem_type for value in (*graph.input, *graph.value_info)}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    nodes = [node for node in graph.node if (node.op_type, node.name) == (lacking["operator"], lacking["name"])]
    inputs = dict.fromkeys(types[name] for node in nodes[:1] for name in node.input if name in types)
    names = ", ".join(onnx.TensorProto.DataType.Name(kind).lower() for kind in inputs)
    return f", whose inputs are {names}" if names else ""


def open_session_or_source(
    model: Path, target: Target, source: Opener | None, *, checked: bool = True
) -> InferenceSession | FrameworkSession:
    """Open an ONNX model as `open_session` does, or in its place the model of another framework that it comes from."""
    return FrameworkSession(model, source()) if source else open_session(model, target, checked=checked)


def check_placement(session: InferenceSession, target: Target, model: Path) -> None:
    """Check where the nodes of a session of `model` landed against the target's `fallback`; may log a warning.

    Raises:
        UsageError: if the target forbids the CPU and nodes fell back to it.
    """
    if _may_fall_back(target):
        placement.check_fallback(target, placement.read_placement(session), model)


def _may_fall_back(target: Target) -> bool:
    """Return whether nodes can land on the CPU against the target's wish."""
    return target.fallback != "allow" and target.providers[0].name != CPU


def _shorten_path(prefix: re.Match[str]) -> str:
    """Return the end of the path in a message's prefix: which of the models of a stage or bundle it is."""
    path = prefix["path"]
    return f"{'/'.join(Path(path).parts[-2:])}: " if path else ""


def _require_available(target: Target) -> None:
    present = list_available()
    missing = [item.name for item in target.providers if item.name not in present and not is_plugin(item)]
    if missing:
        raise UsageError(
            f"target '{target.name}': {', '.join(missing)} is not in this build of ONNX Runtime",
            why=f"it has {', '.join(present)}",
            hint="install the build of ONNX Runtime that has it, then look again: orun doctor",
        )


def _require_loaded(target: Target, loaded: Sequence[str]) -> None:
    missing = [provider.name for provider in target.providers if provider.name not in loaded]
    if missing:
        raise UsageError(
            f"target '{target.name}': {', '.join(missing)} did not load; the session would run on {', '.join(loaded)}",
            why="a library or device that it needs is not on this machine; ONNX Runtime's own message is in the log",
            hint=DOCTOR,
        )
