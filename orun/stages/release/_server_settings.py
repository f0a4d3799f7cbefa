"""Settings of a served model: `server.json`, which the program of the folder reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onnx import TensorProto

from orun.core.targets import EXTENSIONS, Target
from orun.errors import UsageError
from orun.measure.session_options import ATTRIBUTES, ENUMS, list_disabled_optimizers
from orun.stages._graph.signature import list_inputs
from orun.stages.contract import Context

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

SERVED = frozenset(
    {
        TensorProto.BOOL, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
        TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT16,
        TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.STRING,
    }
)  # fmt: skip
ENTRIES: Mapping[str, str] = {"denormals_as_zero": "session.set_denormal_as_zero"}
OTHERWISE_SET = frozenset({"custom_op_libraries", "disabled_optimizers", "free_dimension_overrides"})


def require_served(model: ModelProto) -> tuple[ValueInfoProto, ...]:
    """Return the inputs and outputs of a model; refuse those that the protocol cannot carry.

    Raises:
        UsageError: if one is no tensor, or of a type that the protocol does not have.
    """
    values = (*list_inputs(model), *model.graph.output)
    for value in values:
        code = value.type.tensor_type.elem_type
        if not value.type.HasField("tensor_type"):
            raise UsageError(
                f"{value.name!r} is not a tensor, and the Open Inference Protocol carries tensors alone",
                hint="for a classifier of `convert/sklearn`, set `zipmap: false`",
            )
        if code not in SERVED:
            kind = TensorProto.DataType.Name(code).lower()
            raise UsageError(f"{value.name!r} is of type {kind}, which the Open Inference Protocol does not carry")
    return values


def build_session_settings(context: Context, target: Target, *, extensions: bool) -> dict[str, Any]:
    """Return providers and session options of a target as the program applies them.

    Args:
        context: of the stage; a note names the options that the program does not apply.
        target: the target, with what `optimize/session` found.
        extensions: whether the model has operators of onnxruntime-extensions.

    Raises:
        UsageError: if the target names files that the folder does not have.
    """
    files = [*target.libraries, *target.plugins]
    if files:
        raise UsageError(
            f"target {target.name!r} names {', '.join(files)}, whose place on the server is unknown",
            hint="use a target without libraries of its own",
        )
    session = target.session
    known = {*ATTRIBUTES, *ENUMS, *ENTRIES, *OTHERWISE_SET}
    if options := sorted(name for name in session if name not in known and "." not in name):
        context.note(f"the server does not apply {', '.join(options)} of target {target.name!r}")
    return {
        "providers": [[provider.name, dict(provider.options)] for provider in target.providers],
        "disabled_optimizers": list_disabled_optimizers(target),
        "extensions": extensions or target.extended,
        "session": {
            "attributes": {name: value for name, value in session.items() if name in ATTRIBUTES},
            "enums": {
                name: [ENUMS[name][0], ENUMS[name][1][value]] for name, value in session.items() if name in ENUMS
            },
            "entries": {
                ENTRIES.get(name, name): str(int(value)) if isinstance(value, bool) else str(value)
                for name, value in session.items()
                if "." in name or name in ENTRIES
            },
            "dimensions": {
                str(name): int(size) for name, size in (session.get("free_dimension_overrides") or {}).items()
            },
        },
    }


def list_runtime_pins(extensions: str | None) -> list[str]:
    """Return requirements of ONNX Runtime for the CPU, in the pipeline's version, and of its operators.

    Args:
        extensions: version of onnxruntime-extensions, empty for any, or None if the model does not need it.
    """
    import onnxruntime

    pins = [f"onnxruntime=={onnxruntime.__version__}"]
    if extensions is not None:
        pins.append(f"{EXTENSIONS}=={extensions}" if extensions else EXTENSIONS)
    return pins
