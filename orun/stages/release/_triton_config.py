"""`config.pbtxt` of Triton's ONNX Runtime back end for a model.

https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/model_configuration.html and
https://github.com/triton-inference-server/onnxruntime_backend
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from onnx import TensorProto

from orun.core.targets import Target
from orun.errors import UsageError
from orun.stages._graph.io import input_names

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

    from orun.stages.release.triton import Params

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
LONGEST = 255  # bytes of a folder's name
CPU = "CPUExecutionProvider"
TYPES: Mapping[int, str] = {
    TensorProto.BOOL: "TYPE_BOOL", TensorProto.UINT8: "TYPE_UINT8", TensorProto.UINT16: "TYPE_UINT16",
    TensorProto.UINT32: "TYPE_UINT32", TensorProto.UINT64: "TYPE_UINT64", TensorProto.INT8: "TYPE_INT8",
    TensorProto.INT16: "TYPE_INT16", TensorProto.INT32: "TYPE_INT32", TensorProto.INT64: "TYPE_INT64",
    TensorProto.FLOAT16: "TYPE_FP16", TensorProto.FLOAT: "TYPE_FP32", TensorProto.DOUBLE: "TYPE_FP64",
    TensorProto.STRING: "TYPE_STRING", TensorProto.BFLOAT16: "TYPE_BF16",
}  # fmt: skip
ACCELERATORS: Mapping[str, tuple[str, str]] = {  # list and name under `execution_accelerators`
    "TensorrtExecutionProvider": ("gpu_execution_accelerator", "tensorrt"),
    "CUDAExecutionProvider": ("gpu_execution_accelerator", "cuda"),
    "OpenVINOExecutionProvider": ("cpu_execution_accelerator", "openvino"),
}
GPU = frozenset({"CUDAExecutionProvider", "TensorrtExecutionProvider"})
PRECISIONS: Mapping[str, str] = {"trt_fp16_enable": "FP16", "trt_int8_enable": "INT8"}
RENAMED: Mapping[str, str] = {
    "trt_max_workspace_size": "max_workspace_size_bytes",
    "trt_int8_calibration_table_name": "int8_calibration_table_name",
    "trt_int8_use_native_calibration_table": "int8_use_native_calibration_table",
}
TRUE = ("1", "true")
LEVELS: Mapping[str, int] = {"disable": 2, "basic": -1, "extended": 1}  # all optimizations without a word
SESSION: Mapping[str, str] = {  # session options and the parameters of the back end
    "intra_op_num_threads": "intra_op_thread_count",
    "inter_op_num_threads": "inter_op_thread_count",
}
WARM_UP_AXIS = 1  # size of a dynamic axis while the server warms up


def config(model: ModelProto, params: Params, target: Target | None) -> str:
    """The text of the configuration.

    Raises:
        UsageError: when the model or a parameter does not suit Triton.
    """
    if not NAME.fullmatch(params.name) or len(params.name) > LONGEST:
        why = f"letters, digits, `_`, `.` and `-` are, {LONGEST} at most"
        raise UsageError(f"{params.name!r:.80} is no name for a folder", why=why)
    if target:
        _require_told(params, target)
    taken = set(input_names(model))
    inputs = [value for value in model.graph.input if value.name in taken]
    outputs = list(model.graph.output)
    if params.max_batch_size:
        for value in (*inputs, *outputs):
            _check_batch(value)
    lines = [
        f"name: {json.dumps(params.name)}",
        'backend: "onnxruntime"',
        'default_model_filename: "model.onnx"',
        f"max_batch_size: {params.max_batch_size}",
        *(line for value in inputs for line in _port("input", value, params)),
        *(line for value in outputs for line in _port("output", value, params)),
        *_batching(params),
        *_instances(params, target),
        *_optimization(target),
        *_session(target),
        *(_warm_up(inputs, params) if params.warm_up else ()),
    ]
    return "\n".join(lines) + "\n"


def _require_told(params: Params, target: Target) -> None:
    """Refuse what the target says and the configuration has no word for."""
    wanted = {provider.name for provider in target.providers}
    if unknown := sorted(wanted - ACCELERATORS.keys() - {CPU}):
        raise UsageError(
            f"Triton's ONNX Runtime back end has no {', '.join(unknown)}, which target {target.name!r} names",
            hint=f"name a target of {', '.join(ACCELERATORS)} or {CPU}",
        )
    if params.device == "gpu" and not wanted & GPU:
        raise UsageError(f"`device: gpu`, and target {target.name!r} has no provider that computes on one")
    if params.device == "cpu" and wanted & GPU:
        raise UsageError(f"`device: cpu`, and target {target.name!r} names {', '.join(sorted(wanted & GPU))}")
    if target.session.get("custom_op_libraries"):
        raise UsageError(
            f"target {target.name!r} names libraries of custom operators, of whose place on a server nothing is known",
            hint="use a target without them, and add `model_operations` to config.pbtxt where the server has them",
        )


def untold(target: Target) -> list[str]:
    """Session options of the target that Triton's back end has no parameter for."""
    level = target.session.get("graph_optimization_level")
    known = {*SESSION, "execution_mode", *(["graph_optimization_level"] if level in (*LEVELS, "all") else [])}
    return sorted(set(target.session) - known)


def _check_batch(value: ValueInfoProto) -> None:
    axes = value.type.tensor_type.shape.dim
    if not axes or axes[0].HasField("dim_value"):
        raise UsageError(
            f"`max_batch_size` needs a model whose first axis is the batch everywhere, and that of {value.name!r} is "
            + (f"{axes[0].dim_value} always" if axes else "not there"),
            hint="export it with a dynamic first axis, or set `max_batch_size: 0`",
        )


def _type(value: ValueInfoProto) -> str:
    code = value.type.tensor_type.elem_type
    if not value.type.HasField("tensor_type") or code not in TYPES:
        kind = TensorProto.DataType.Name(code).lower() if code else value.type.WhichOneof("value")
        raise UsageError(f"{value.name!r} is of type {kind}, which Triton does not know")
    return TYPES[code]


def _dims(value: ValueInfoProto, params: Params) -> list[int]:
    axes = value.type.tensor_type.shape.dim
    sizes = [axis.dim_value if axis.HasField("dim_value") else -1 for axis in axes]
    return sizes[1:] if params.max_batch_size else sizes


def _port(way: str, value: ValueInfoProto, params: Params) -> Iterator[str]:
    dims = _dims(value, params)
    yield f"{way} ["
    yield "  {"
    yield f"    name: {json.dumps(value.name)}"
    yield f"    data_type: {_type(value)}"
    if dims:
        yield f"    dims: {dims}"
    else:  # Triton has no word for a scalar: it is one value that is given without an axis
        yield "    dims: [1]"
        yield "    reshape { shape: [] }"
    yield "  }"
    yield "]"


def _batching(params: Params) -> Iterator[str]:
    if not params.max_batch_size:
        if params.preferred_batch_sizes or params.max_queue_delay:
            raise UsageError("`preferred_batch_sizes` and `max_queue_delay` need a `max_batch_size`")
        return
    yield "dynamic_batching {"
    if params.preferred_batch_sizes:
        if min(params.preferred_batch_sizes) < 1:
            raise UsageError(f"a preferred batch of {min(params.preferred_batch_sizes)} has no examples")
        if max(params.preferred_batch_sizes) > params.max_batch_size:
            raise UsageError(
                f"a preferred batch of {max(params.preferred_batch_sizes)} is over `max_batch_size`, "
                f"{params.max_batch_size}"
            )
        yield f"  preferred_batch_size: {sorted(set(params.preferred_batch_sizes))}"
    yield f"  max_queue_delay_microseconds: {params.max_queue_delay}"
    yield "}"


def _instances(params: Params, target: Target | None) -> Sequence[str]:
    wanted = {provider.name for provider in target.providers} if target else set()
    on_gpu = params.device == "gpu" or (params.device == "auto" and bool(wanted & GPU))
    return [f"instance_group [ {{ count: {params.instances} kind: {'KIND_GPU' if on_gpu else 'KIND_CPU'} }} ]"]


def _optimization(target: Target | None) -> Iterator[str]:
    level = LEVELS.get(str(target.session.get("graph_optimization_level"))) if target else None
    found = [provider for provider in (target.providers if target else ()) if provider.name in ACCELERATORS]
    if level is None and not found:
        return
    yield "optimization {"
    if level is not None:
        yield f"  graph {{ level: {level} }}"
    if found:
        yield "  execution_accelerators {"
        for provider in found:
            kind, name = ACCELERATORS[provider.name]
            yield f"    {kind} [ {{"
            yield f"      name: {json.dumps(name)}"
            for key, value in sorted(_accelerator_options(provider.options).items()):
                yield f"      parameters {{ key: {json.dumps(key)} value: {json.dumps(value)} }}"
            yield "    } ]"
        yield "  }"
    yield "}"


def _accelerator_options(options: Mapping[str, str]) -> dict[str, str]:
    """Provider options by the names that the back end has for them."""
    found: dict[str, str] = {}
    for name, value in sorted(options.items()):
        if name not in PRECISIONS:
            found[RENAMED.get(name, name)] = value
        elif value.lower() in TRUE:
            found["precision_mode"] = PRECISIONS[name]  # INT8 comes last and lets TensorRT use FP16 too
    return found


def _session(target: Target | None) -> Iterator[str]:
    options = target.session if target else {}
    named = {parameter: str(options[name]) for name, parameter in SESSION.items() if name in options}
    if options.get("execution_mode") == "parallel":
        named["execution_mode"] = "1"
    for name, value in named.items():
        yield f"parameters {{ key: {json.dumps(name)} value: {{ string_value: {json.dumps(value)} }} }}"


def _warm_up(inputs: Sequence[ValueInfoProto], params: Params) -> Iterator[str]:
    if any(_type(value) == "TYPE_STRING" for value in inputs):
        return  # zeros of text are nothing that a model expects
    yield "model_warmup ["
    yield "  {"
    yield '    name: "zeros"'
    yield f"    batch_size: {1 if params.max_batch_size else 0}"
    for value in inputs:
        dims = [WARM_UP_AXIS if size < 0 else size for size in _dims(value, params)] or [1]
        zeros = f"{{ data_type: {_type(value)} dims: {dims} zero_data: true }}"
        yield f"    inputs {{ key: {json.dumps(value.name)} value: {zeros} }}"
    yield "  }"
    yield "]"
