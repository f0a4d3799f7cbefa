"""Shape inference with names for sizes, by ONNX Runtime, which knows its own operators, and with what it lacks."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto
    from onnx.onnx_pb import TensorShapeProto

# Reductions whose axes are an input since opset 18, of which ONNX Runtime's inference knows but ReduceSum.
REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMin", "ReduceSumSquare")
AXES_ARE_INPUT = 18
HEADS_APART = 4  # axes of an attention's inputs whose heads have an axis of their own


@functools.cache
def taught() -> Any:
    """ONNX Runtime's inference for transformers, taught what it lacks; its optimizer uses it from now on.

    It lacks the reductions of opset 18 and the operators of opset 23, and takes the standard's Attention for its own:
    the inference of a whole model fails when there is one of them (a normalised embedding ends in ReduceL2), and then
    no SkipLayerNormalization is fused. As of onnxruntime 1.31; before, it takes the Shape of some axes, as PyTorch's
    dynamo exporter asks for it, for that of all of them.
    """
    from onnx import helper

    importlib.import_module("onnxruntime.transformers.onnx_model")  # puts its folder onto the path
    module: Any = importlib.import_module("shape_infer_helper")
    known = module.SymbolicShapeInferenceHelper

    class Taught(known):  # type: ignore[misc, valid-type]
        def __init__(self, model: ModelProto, *arguments: Any, **options: Any) -> None:
            super().__init__(model, *arguments, **options)
            if any(item.domain == "" and item.version >= AXES_ARE_INPUT for item in model.opset_import):
                self.dispatcher_ |= dict.fromkeys(REDUCTIONS, self._infer_ReduceSum)
            own = self.dispatcher_["Attention"]
            self.dispatcher_["Attention"] = lambda node: own(node) if node.domain else self._infer_standard(node)
            self.dispatcher_["RMSNormalization"] = self._infer_LayerNormalization
            self.dispatcher_["Shape"] = self._infer_sizes

        def _infer_sizes(self, node: NodeProto) -> None:
            """The sizes of the axes from `start` to `end`."""
            ends = {item.name: item.i for item in node.attribute}
            self.sympy_data_[node.output[0]] = self._get_sympy_shape(node, 0)[ends.get("start") : ends.get("end")]

        def _infer_standard(self, node: NodeProto) -> None:
            """The standard's Attention: the shape of the queries, with heads of the size of the values'."""
            query, value = self._get_shape(node, 0), self._get_shape(node, 2)
            if len(query) == len(value) == HEADS_APART:
                kind = self.known_vi_[node.input[0]].type.tensor_type.elem_type
                made = helper.make_tensor_value_info(node.output[0], kind, [*query[:3], value[3]])
                self.known_vi_[node.output[0]].CopyFrom(made)

    module.SymbolicShapeInferenceHelper = Taught
    return Taught


def infer(model: ModelProto) -> ModelProto:
    """The model with the shape of every value that can be told.

    Raises:
        Exception: of any kind, when the inference cannot follow the model.
    """
    inference = taught()(model, auto_merge=True)
    inference.infer({})
    result: ModelProto = inference.out_mp_
    found = {value.name: value for value in result.graph.value_info}
    for output in result.graph.output:  # whose shapes it leaves as they are
        known = found.pop(output.name, None)
        if known is not None and output.type.HasField("tensor_type"):
            _complete(output.type.tensor_type.shape, known.type.tensor_type.shape)
    # Of sequences, optional values and maps it has an entry that says nothing, which the checker refuses.
    kept = [value for value in found.values() if value.type.WhichOneof("value")]
    del result.graph.value_info[:]
    result.graph.value_info.extend(kept)
    return result


def _complete(declared: TensorShapeProto, known: TensorShapeProto) -> None:
    """Fill in the axes that have neither size nor name."""
    if not declared.dim:
        declared.CopyFrom(known)
    for axis, right in zip(declared.dim, known.dim, strict=True):
        if not axis.HasField("dim_value") and not axis.dim_param:
            axis.CopyFrom(right)
