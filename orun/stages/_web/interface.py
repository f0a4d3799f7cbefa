"""Inputs and outputs of a model as JavaScript has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from orun.stages.contract import Context

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

# JavaScript's arrays by the types of ONNX: https://onnxruntime.ai/docs/api/js/interfaces/Tensor.DataTypeMap.html
ARRAYS: Mapping[str, str] = {
    "FLOAT": "Float32Array", "FLOAT16": "Float16Array, or Uint16Array of its bits where a browser has none",
    "DOUBLE": "Float64Array", "BOOL": "Uint8Array", "STRING": "string[]",
    "INT8": "Int8Array", "INT16": "Int16Array", "INT32": "Int32Array", "INT64": "BigInt64Array",
    "UINT8": "Uint8Array", "UINT16": "Uint16Array", "UINT32": "Uint32Array", "UINT64": "BigUint64Array",
}  # fmt: skip


def iter_inputs_and_outputs(model: ModelProto) -> Iterator[tuple[str, ValueInfoProto]]:
    """Yield each input that has no default, and each output, after the word for it."""
    from orun.stages._graph.signature import list_inputs

    yield from (("input", value) for value in list_inputs(model))
    yield from (("output", value) for value in model.graph.output)


def find_array(value: ValueInfoProto) -> str | None:
    """Return the JavaScript array of a value; None if onnxruntime-web has none."""
    return ARRAYS.get(_name_type(value))


def list_unfit(model: ModelProto) -> list[str]:
    """Return a sentence for each input and output that JavaScript cannot take."""
    return [
        f"{word} {value.name!r} is {_describe_type(value)}, which onnxruntime-web cannot pass to JavaScript"
        for word, value in iter_inputs_and_outputs(model)
        if find_array(value) is None
    ]


def require_fit(context: Context, model: ModelProto) -> None:
    """Refuse a model with an input or output that JavaScript cannot take.

    Raises:
        StageFailed: with every such value.
    """
    if unfit := list_unfit(model):
        raise context.failed(
            "onnxruntime-web cannot run the model",
            why="\n".join(unfit),
            hint="cast it in the model (optimize/edit); for a classifier of `convert/sklearn`, set `zipmap: false`",
        )


def _name_type(value: ValueInfoProto) -> str:
    from onnx import TensorProto

    if not value.type.HasField("tensor_type"):
        return ""
    return str(TensorProto.DataType.Name(value.type.tensor_type.elem_type))


def _describe_type(value: ValueInfoProto) -> str:
    kind = (value.type.WhichOneof("value") or "value of no type").removesuffix("_type")
    return f"of {_name_type(value)}" if kind == "tensor" else f"a {kind}"
