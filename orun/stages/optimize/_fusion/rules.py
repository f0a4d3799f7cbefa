"""Fusion rules of orun, in their order: later rules build on earlier ones.

They match what a graph computes and the sizes that shape inference proves, not the nodes of a certain exporter. An
attention is found from its softmax, whatever nodes compute its shapes, masks and transpositions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import onnx_ir as ir
from onnx import ModelProto, ValueInfoProto
from onnx_ir.passes import common
from onnxruntime.transformers.fusion_fastgelu import FusionFastGelu
from onnxruntime.transformers.fusion_gelu import FusionGelu
from onnxruntime.transformers.fusion_layernorm import FusionLayerNormalization
from onnxruntime.transformers.fusion_quickgelu import FusionQuickGelu
from onnxruntime.transformers.onnx_model import OnnxModel

from orun.stages._graph.compat import patch_quadratic_scan
from orun.stages._graph.nodes import set_items
from orun.stages._graph.symbolic import infer_shapes
from orun.stages.contract import Context
from orun.stages.library_errors import failing
from orun.stages.optimize._fusion import Settings
from orun.stages.optimize._fusion.activations import fuse_bias_gelu
from orun.stages.optimize._fusion.attention import fuse_attention
from orun.stages.optimize._fusion.embedding import fuse_embedding
from orun.stages.optimize._fusion.graph import Rewriter
from orun.stages.optimize._fusion.norms import fuse_bias_skip, fuse_rms_normalization, fuse_skip
from orun.stages.optimize._fusion.packing import pack
from orun.stages.optimize._fusion.rotary import fuse_rotary
from orun.stages.optimize._fusion.tidy import separate_linear, tidy

# Rules, each with the names that disable it.
RULES: Sequence[tuple[Callable[[Rewriter], None], set[str]]] = (
    (separate_linear, set()),
    (fuse_rotary, {"rotary_embeddings"}),
    (fuse_attention, {"attention"}),
    (separate_linear, set()),  # again, for layers that an attention kept flattened
    (pack, {"attention", "packing"}),
    (fuse_rms_normalization, {"layer_norm"}),
    (fuse_embedding, {"embed_layer_norm"}),
    (fuse_skip, {"skip_layer_norm"}),
    (fuse_bias_skip, {"skip_layer_norm", "bias_skip_layer_norm"}),
    (fuse_bias_gelu, {"bias_gelu"}),
)
# ONNX Runtime's fusions for operators that older operator sets express as several nodes.
PRIMITIVES = (
    (FusionGelu, "gelu"),
    (FusionFastGelu, "gelu"),
    (FusionQuickGelu, "gelu"),
    (FusionLayerNormalization, "layer_norm"),
)


def apply_rules(context: Context, model: ModelProto, settings: Settings) -> tuple[ModelProto, Mapping[str, str]]:
    """Fuse all layers that match; return the model and the reason for each unfused attention, by its result's name.

    ONNX Runtime's basic optimizations must have been applied.

    Raises:
        StageFailed: when the model cannot be fused.
    """
    disabled = [*settings.disable, *(["packing"] if settings.multi_head_attention else [])]
    hint = "use `method: onnxruntime`, or leave fusions out: `disable: [...]`"
    with failing(context, "the model cannot be fused by rules", hint):
        return _fuse(context, model, disabled)


def _fuse(context: Context, model: ModelProto, disabled: Collection[str]) -> tuple[ModelProto, Mapping[str, str]]:
    patch_quadratic_scan()
    primitive = OnnxModel(model)
    for fusion, name in PRIMITIVES:
        if name not in disabled:
            fusion(primitive).apply()
    primitive.topological_sort()
    known = {value.name: ValueInfoProto.FromString(value.SerializeToString()) for value in model.graph.value_info}
    graph = ir.from_proto(infer_shapes(context, primitive.model))
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(graph)
    edit = Rewriter(graph, disabled)
    for fuse, names in RULES:
        if names.isdisjoint(disabled):
            fuse(edit)
            edit.graph.sort()
            tidy(edit)
            common.RemoveUnusedNodesPass()(edit.model)
    edit.graph.sort()
    fused = ir.to_proto(edit.model)
    # The inference takes sizes that it cannot compare for equal, and ONNX Runtime would rely on them.
    set_items(fused.graph.value_info, (known[value.name] for value in fused.graph.value_info if value.name in known))
    return fused, edit.left
