"""Fusions of transformer layers: rules of our own, and ONNX Runtime's optimizer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from orun.stages.params import Doc, Range

COUNTED = (
    "Attention", "MultiHeadAttention", "GroupQueryAttention", "EmbedLayerNormalization", "LayerNormalization",
    "SkipLayerNormalization", "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", "RMSNormalization",
    "RotaryEmbedding", "Gelu", "BiasGelu", "FastGelu", "QuickGelu",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Parameters of a fusion."""

    method: Annotated[
        Literal["auto", "rules", "onnxruntime"],
        Doc(
            "`onnxruntime` is ONNX Runtime's transformer optimizer, which knows the patterns of a family (those of "
            "BERT in `transformers` 5 from ONNX Runtime 1.31 on); `rules` are orun's own, which go by what the graph "
            "computes; `auto` takes the first of the two that fuses every attention and computes the same, or the one "
            "that fuses most."
        ),
    ] = "auto"
    model_type: Annotated[
        Literal[
            "bart", "bert", "bert_keras", "bert_tf", "clip", "conformer", "gpt2", "gpt2_tf", "gpt_neox", "mmdit", "phi",
            "qwen3", "sam2", "swin", "t5", "tnlr", "unet", "vae", "vit",
        ],
        Doc("Family of patterns for ONNX Runtime's optimizer; RoBERTa and DistilBERT are `bert`."),
    ] = "bert"  # fmt: skip
    num_heads: Annotated[
        int | None, Doc("Attention heads of a layer, for ONNX Runtime's optimizer; read from the graph when left out."),
        Range(1),
    ] = None  # fmt: skip
    hidden_size: Annotated[
        int | None, Doc("Width of a layer, for ONNX Runtime's optimizer; read from the graph when left out."), Range(1)
    ] = None
    level: Annotated[
        Literal["disable", "basic", "extended"], Doc("ONNX Runtime's optimizations before the fusions.")
    ] = "basic"
    mask: Annotated[
        Literal["any", "right-padded", "none"],
        Doc(
            "What ONNX Runtime's optimizer makes of the attention mask; `rules` keep it as it is. `right-padded` is "
            "faster where the padding stands behind the text, and wrong anywhere else; `none` drops the mask."
        ),
    ] = "any"
    multi_head_attention: Annotated[
        bool, Doc("Fuse to MultiHeadAttention, with separate projections, instead of Attention.")
    ] = False
    disable: Annotated[
        list[
            Literal[
                "attention", "bias_gelu", "bias_skip_layer_norm", "embed_layer_norm", "gelu", "grouped_query_attention",
                "layer_norm", "qordered_matmul", "rotary_embeddings", "shape_inference", "skip_layer_norm",
            ]
        ],
        Doc(
            "Fusions to leave out; `qordered_matmul` and `shape_inference` are of ONNX Runtime's optimizer alone, and "
            "`layer_norm` includes the RMS norm."
        ),
    ] = field(default_factory=list)  # fmt: skip
