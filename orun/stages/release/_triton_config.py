"""Configuration of a model for Triton's ONNX Runtime back end: `config.pbtxt`.

https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/model_configuration.html and
https://github.com/triton-inference-server/onnxruntime_backend
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx import TensorProto

from orun.core.targets import EXTENSIONS, Target
from orun.errors import UsageError
from orun.measure.extension_operators import DOMAINS
from orun.stages._graph.signature import list_inputs
from orun.stages.release._served_model import require_batch, require_name

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

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
LEVELS: Mapping[str, int] = {"disable": 2, "basic": -1, "extended": 1}  # `all` is the default
SESSION: Mapping[str, str] = {  # session options and the parameters of the back end
    "intra_op_num_threads": "intra_op_thread_count",
    "inter_op_num_threads": "inter_op_thread_count",
}
WARM_UP_AXIS = 1  # size of a dynamic axis while the server warms up


@dataclass(frozen=True)
class Settings:
    """Settings of the server for a model."""

    name: str
    max_batch_size: int  # that the server forms; 0 for no batching
    preferred_batch_sizes: Sequence[int]  # that dynamic batching aims at
    max_queue_delay: int  # microseconds that a request may wait for a batch
    instances: int  # copies of the model
    device: str
    warm_up: bool  # whether the server runs the model before it is ready


def render_config(model: ModelProto, settings: Settings, target: Target | None) -> str:
    """Return the text of the configuration.

    Raises:
        UsageError: if Triton does not support the model or a setting.
    """
    require_name(settings.name)
    if target:
        _require_supported(settings, target)
    if DOMAINS & {item.domain for item in model.opset_import}:
        raise UsageError(
            f"the model has operators of {EXTENSIONS}, whose library's place on the server is unknown",
            hint="release the model without `optimize/pipeline-in-model`, and prepare its inputs in an ensemble",
        )
    inputs = list_inputs(model)
    outputs = list(model.graph.output)
    if settings.max_batch_size:
        require_batch((*inputs, *outputs))
    lines = [
        f"name: {json.dumps(settings.name)}",
        'backend: "onnxruntime"',
        'default_model_filename: "model.onnx"',
        f"max_batch_size: {settings.max_batch_size}",
        *(line for value in inputs for line in _format_port("input", value, settings)),
        *(line for value in outputs for line in _format_port("output", value, settings)),
        *_format_batching(settings),
        *_format_instances(settings, target),
        *_format_optimization(target),
        *_format_session(target),
        *(_format_warm_up(inputs, settings) if settings.warm_up else ()),
    ]
    return "\n".join(lines) + "\n"


def _require_supported(settings: Settings, target: Target) -> None:
    """Refuse a target that the configuration cannot express."""
    wanted = {provider.name for provider in target.providers}
    if unknown := sorted(wanted - ACCELERATORS.keys() - {CPU}):
        raise UsageError(
            f"Triton's ONNX Runtime back end has no {', '.join(unknown)}, which target {target.name!r} names",
            hint=f"use a target with {', '.join(ACCELERATORS)} or {CPU}",
        )
    if settings.device == "gpu" and not wanted & GPU:
        raise UsageError(f"`device: gpu`, and target {target.name!r} has no GPU provider")
    if settings.device == "cpu" and wanted & GPU:
        raise UsageError(f"`device: cpu`, and target {target.name!r} names {', '.join(sorted(wanted & GPU))}")
    if target.session.get("custom_op_libraries"):
        raise UsageError(
            f"target {target.name!r} names libraries of custom operators, whose path on the server is unknown",
            hint="use a target without them, and add `model_operations` with their paths to config.pbtxt",
        )


def list_unsupported_options(target: Target) -> list[str]:
    """Return the session options of the target that Triton's back end has no parameter for."""
    level = target.session.get("graph_optimization_level")
    known = {*SESSION, "execution_mode", *(["graph_optimization_level"] if level in (*LEVELS, "all") else [])}
    return sorted(set(target.session) - known)


def takes_texts(model: ModelProto) -> bool:
    """Return whether the model has a text input: it may fail on the empty texts of a warm-up."""
    return any(value.type.tensor_type.elem_type == TensorProto.STRING for value in list_inputs(model))


def _name_type(value: ValueInfoProto) -> str:
    code = value.type.tensor_type.elem_type
    if not value.type.HasField("tensor_type") or code not in TYPES:
        kind = TensorProto.DataType.Name(code).lower() if code else value.type.WhichOneof("value")
        raise UsageError(f"{value.name!r} is of type {kind}, which Triton does not support")
    return TYPES[code]


def _list_dims(value: ValueInfoProto, settings: Settings) -> list[int]:
    axes = value.type.tensor_type.shape.dim
    sizes = [axis.dim_value if axis.HasField("dim_value") else -1 for axis in axes]
    return sizes[1:] if settings.max_batch_size else sizes


def _format_port(direction: str, value: ValueInfoProto, settings: Settings) -> Iterator[str]:
    dims = _list_dims(value, settings)
    yield f"{direction} ["
    yield "  {"
    yield f"    name: {json.dumps(value.name)}"
    yield f"    data_type: {_name_type(value)}"
    if dims:
        yield f"    dims: {dims}"
    else:  # Triton has no scalars: one value, reshaped to no axes
        yield "    dims: [1]"
        yield "    reshape { shape: [] }"
    yield "  }"
    yield "]"


def _format_batching(settings: Settings) -> Iterator[str]:
    if not settings.max_batch_size:
        if settings.preferred_batch_sizes or settings.max_queue_delay:
            raise UsageError("`preferred_batch_sizes` and `max_queue_delay` need a `max_batch_size`")
        return
    yield "dynamic_batching {"
    if settings.preferred_batch_sizes:
        if min(settings.preferred_batch_sizes) < 1:
            raise UsageError(f"a preferred batch of {min(settings.preferred_batch_sizes)} has no examples")
        if max(settings.preferred_batch_sizes) > settings.max_batch_size:
            raise UsageError(
                f"a preferred batch of {max(settings.preferred_batch_sizes)} is over `max_batch_size`, "
                f"{settings.max_batch_size}"
            )
        yield f"  preferred_batch_size: {sorted(set(settings.preferred_batch_sizes))}"
    yield f"  max_queue_delay_microseconds: {settings.max_queue_delay}"
    yield "}"


def _format_instances(settings: Settings, target: Target | None) -> Sequence[str]:
    wanted = {provider.name for provider in target.providers} if target else set()
    on_gpu = settings.device == "gpu" or (settings.device == "auto" and bool(wanted & GPU))
    return [f"instance_group [ {{ count: {settings.instances} kind: {'KIND_GPU' if on_gpu else 'KIND_CPU'} }} ]"]


def _format_optimization(target: Target | None) -> Iterator[str]:
    level = LEVELS.get(str(target.session.get("graph_optimization_level"))) if target else None
    accelerated = [provider for provider in (target.providers if target else ()) if provider.name in ACCELERATORS]
    if level is None and not accelerated:
        return
    yield "optimization {"
    if level is not None:
        yield f"  graph {{ level: {level} }}"
    if accelerated:
        yield "  execution_accelerators {"
        for provider in accelerated:
            kind, name = ACCELERATORS[provider.name]
            yield f"    {kind} [ {{"
            yield f"      name: {json.dumps(name)}"
            for key, value in sorted(_rename_options(provider.options).items()):
                yield f"      parameters {{ key: {json.dumps(key)} value: {json.dumps(value)} }}"
            yield "    } ]"
        yield "  }"
    yield "}"


def _rename_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return provider options by their names in the back end."""
    renamed: dict[str, str] = {}
    for name, value in sorted(options.items()):
        if name not in PRECISIONS:
            renamed[RENAMED.get(name, name)] = value
        elif value.lower() in TRUE:
            renamed["precision_mode"] = PRECISIONS[name]  # INT8 comes last, and allows FP16 too
    return renamed


def _format_session(target: Target | None) -> Iterator[str]:
    options = target.session if target else {}
    named = {parameter: str(options[name]) for name, parameter in SESSION.items() if name in options}
    if options.get("execution_mode") == "parallel":
        named["execution_mode"] = "1"
    for name, value in named.items():
        yield f"parameters {{ key: {json.dumps(name)} value: {{ string_value: {json.dumps(value)} }} }}"


def _format_warm_up(inputs: Sequence[ValueInfoProto], settings: Settings) -> Iterator[str]:
    yield "model_warmup ["
    yield "  {"
    yield '    name: "zeros"'
    yield f"    batch_size: {1 if settings.max_batch_size else 0}"
    for value in inputs:
        dims = [WARM_UP_AXIS if size < 0 else size for size in _list_dims(value, settings)] or [1]
        zeros = f"{{ data_type: {_name_type(value)} dims: {dims} zero_data: true }}"
        yield f"    inputs {{ key: {json.dumps(value.name)} value: {zeros} }}"
    yield "  }"
    yield "]"
