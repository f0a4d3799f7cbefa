"""Patches of ONNX Runtime: operators that its shape inference lacks, and fusions that scan the graph quadratically.

onnxruntime 1.31 and 1.32 need both. `tests/stages/_graph/test_compat.py` fails when one is not needed any more.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, cast

from onnx import ModelProto, NodeProto, helper

CACHE = "orun_producers"  # attribute of a model that holds the producer of each value
# Reductions whose axes are an input since opset 18; ONNX Runtime's inference only knows ReduceSum.
REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMin", "ReduceSumSquare")
AXES_ARE_INPUT = 18
SPLIT_HEADS = 4  # number of axes of an attention's inputs with an axis for heads


@functools.cache
def patch_shape_inference() -> Any:
    """Extend ONNX Runtime's shape inference, which its optimizer then uses too, and return the extended class.

    It lacks the reductions of opset 18 and the operators of opset 23, and takes the standard's Attention for its own. A
    single such operator (a normalized embedding ends in ReduceL2) fails the inference of the whole model, and then no
    SkipLayerNormalization is fused. Versions before 1.31 also take the Shape of some axes, which PyTorch's dynamo
    exporter uses, for the Shape of all axes.
    """
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


@functools.cache
def patch_quadratic_scan() -> None:
    """Let `FusionQuickGelu` and `FusionRotaryEmbeddings` list the producers of all values once.

    They list them for each Add or Mul, which takes minutes in a model of 10,000 nodes. Neither changes a node before it
    has seen all of them. ONNX Runtime imports its modules under two names, so both copies are patched.
    """
    for package in ("onnxruntime.transformers.", ""):
        _cache_producers(importlib.import_module(f"{package}onnx_model").OnnxModel)
        for module, name in (
            ("fusion_quickgelu", "FusionQuickGelu"),
            ("fusion_rotary_attention", "FusionRotaryEmbeddings"),
        ):
            _use_cache(getattr(importlib.import_module(package + module), name))


def _cache_producers(model_class: Any) -> None:
    """Let a model return cached producers while a fusion runs, until nodes are removed."""
    list_producers, remove_nodes = model_class.output_name_to_node, model_class.remove_nodes

    def output_name_to_node(model: Any, *arguments: bool, **options: bool) -> dict[str, NodeProto]:
        cached: dict[str, NodeProto] | None = vars(model).get(CACHE)
        if cached is None or arguments or options:
            return cast("dict[str, NodeProto]", list_producers(model, *arguments, **options))
        if not cached:
            cached.update(list_producers(model))
        return cached

    def remove(model: Any, nodes: list[NodeProto]) -> None:
        vars(model).pop(CACHE, None)
        remove_nodes(model, nodes)

    model_class.output_name_to_node, model_class.remove_nodes = output_name_to_node, remove


def _use_cache(fusion_class: Any) -> None:
    """Let a fusion use the cache until it has seen every node."""
    base = fusion_class.apply

    def apply(fusion: Any) -> None:
        setattr(fusion.model, CACHE, {})
        try:
            base(fusion)
        finally:
            vars(fusion.model).pop(CACHE, None)

    fusion_class.apply = apply
