"""Symbolic shape inference by ONNX Runtime, extended by operators that it lacks."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

from orun.stages.library_errors import describe_error, failing

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto
    from onnx.onnx_pb import TensorShapeProto

    from orun.stages.contract import Context

# Reductions whose axes are an input since opset 18; ONNX Runtime's inference only knows ReduceSum.
REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMin", "ReduceSumSquare")
AXES_ARE_INPUT = 18
SPLIT_HEADS = 4  # number of axes of an attention's inputs with an axis for heads


@functools.cache
def extend_inference() -> Any:
    """Extend ONNX Runtime's inference for transformers, which its optimizer then uses, and return its class.

    It lacks the reductions of opset 18 and the operators of opset 23, and takes the standard's Attention for its own,
    as of onnxruntime 1.31. One such operator (a normalised embedding ends in ReduceL2) fails the inference of the whole
    model, and then no SkipLayerNormalization is fused. Versions before 1.31 also take the Shape of some axes, which
    PyTorch's dynamo exporter uses, for the Shape of all axes.
    """
    from onnx import helper

    importlib.import_module("onnxruntime.transformers.onnx_model")  # puts its folder onto the path
    module: Any = importlib.import_module("shape_infer_helper")
    known = module.SymbolicShapeInferenceHelper

    class Extended(known):  # type: ignore[misc, valid-type]
        def __init__(self, model: ModelProto, *arguments: Any, **options: Any) -> None:
            super().__init__(model, *arguments, **options)
            if any(item.domain == "" and item.version >= AXES_ARE_INPUT for item in model.opset_import):
                self.dispatcher_ |= dict.fromkeys(REDUCTIONS, self._infer_ReduceSum)
            own = self.dispatcher_["Attention"]
            self.dispatcher_["Attention"] = lambda node: own(node) if node.domain else self._infer_standard(node)
            self.dispatcher_["RMSNormalization"] = self._infer_LayerNormalization
            self.dispatcher_["Shape"] = self._infer_sizes

        def _infer_sizes(self, node: NodeProto) -> None:
            """Infer the sizes of the axes from `start` to `end`."""
            ends = {item.name: item.i for item in node.attribute}
            self.sympy_data_[node.output[0]] = self._get_sympy_shape(node, 0)[ends.get("start") : ends.get("end")]

        def _infer_standard(self, node: NodeProto) -> None:
            """Infer the standard's Attention: the shape of the queries, with heads of the values' size."""
            query, value = self._get_shape(node, 0), self._get_shape(node, 2)
            if len(query) == len(value) == SPLIT_HEADS:
                kind = self.known_vi_[node.input[0]].type.tensor_type.elem_type
                output = helper.make_tensor_value_info(node.output[0], kind, [*query[:3], value[3]])
                self.known_vi_[node.output[0]].CopyFrom(output)

    module.SymbolicShapeInferenceHelper = Extended
    return Extended


def infer(model: ModelProto) -> ModelProto:
    """Return the model with every shape that can be inferred.

    Raises:
        Exception: of any kind, when the inference cannot handle the model.
    """
    inference = extend_inference()(model, auto_merge=True)
    inference.infer({})
    result: ModelProto = inference.out_mp_
    inferred = {value.name: value for value in result.graph.value_info}
    for output in result.graph.output:  # the inference leaves their shapes as they are
        known = inferred.pop(output.name, None)
        if known is not None and output.type.HasField("tensor_type"):
            _complete(output.type.tensor_type.shape, known.type.tensor_type.shape)
    # The entries of sequences, optional values and maps are empty, and the checker refuses them.
    kept = [value for value in inferred.values() if value.type.WhichOneof("value")]
    del result.graph.value_info[:]
    result.graph.value_info.extend(kept)
    return result


def infer_shapes(context: Context, model: ModelProto) -> ModelProto:
    """Return the model with its shapes, by ONNX Runtime's inference or, if that fails, by ONNX's own.

    Raises:
        StageFailed: when neither can.
    """
    from onnx import shape_inference

    try:
        return infer(model)
    except Exception as error:  # noqa: BLE001 - it raises errors of any type
        context.log.warning(
            "ONNX Runtime's inference cannot follow the model, ONNX's own is used: %s", describe_error(error)
        )
    with failing(context, "the shapes of the model cannot be worked out", "simplify the model first"):
        inferred: ModelProto = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    return inferred


def _complete(declared: TensorShapeProto, known: TensorShapeProto) -> None:
    """Fill in the axes that have neither size nor name."""
    if not declared.dim:
        declared.CopyFrom(known)
    for axis, right in zip(declared.dim, known.dim, strict=True):
        if not axis.HasField("dim_value") and not axis.dim_param:
            axis.CopyFrom(right)
