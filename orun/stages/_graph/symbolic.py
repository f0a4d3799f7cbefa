"""Symbolic shape inference by ONNX Runtime."""

from __future__ import annotations

from onnx import ModelProto, shape_inference

from orun.stages._graph.compat import patch_shape_inference
from orun.stages._graph.nodes import set_items
from orun.stages.contract import Context
from orun.stages.library_errors import describe_error, failing


def infer(model: ModelProto) -> ModelProto:
    """Return the model with every shape that can be inferred.

    Raises:
        Exception: of any type, when the inference fails.
    """
    inference = patch_shape_inference()(model, auto_merge=True)
    inference.infer({})
    result: ModelProto = inference.out_mp_
    inferred = {value.name: value for value in result.graph.value_info}
    for output in result.graph.output:  # the inference does not change their shapes
        known = inferred.pop(output.name, None)
        if known is not None and output.type.HasField("tensor_type"):
            declared, right = output.type.tensor_type.shape, known.type.tensor_type.shape
            if not declared.dim:
                declared.CopyFrom(right)
            for axis, size in zip(declared.dim, right.dim, strict=True):
                if not axis.HasField("dim_value") and not axis.dim_param:
                    axis.CopyFrom(size)
    # The entries of sequences, optional values and maps are empty, and the checker refuses them.
    set_items(result.graph.value_info, (value for value in inferred.values() if value.type.WhichOneof("value")))
    return result


def infer_shapes(context: Context, model: ModelProto) -> ModelProto:
    """Return the model with its shapes, by ONNX Runtime's inference or, if that fails, by ONNX's own.

    Raises:
        StageFailed: when neither can.
    """
    try:
        return infer(model)
    except Exception as error:  # noqa: BLE001 - it raises errors of any type
        context.log.warning(
            "ONNX Runtime's inference cannot follow the model, ONNX's own is used: %s", describe_error(error)
        )
    with failing(context, "the shapes of the model cannot be worked out", "simplify the model first"):
        inferred: ModelProto = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    return inferred
