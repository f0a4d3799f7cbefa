"""Fusions of transformer layers: rules of our own, and ONNX Runtime's optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

COUNTED = (
    "Attention", "MultiHeadAttention", "GroupQueryAttention", "EmbedLayerNormalization", "LayerNormalization",
    "SkipLayerNormalization", "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", "RMSNormalization",
    "RotaryEmbedding", "Gelu", "BiasGelu", "FastGelu", "QuickGelu",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Settings of a fusion; `optimize/transformer` documents them.

    Attributes:
        method: `auto`, `rules` or `onnxruntime`.
        level: ONNX Runtime's own optimizations before the fusions.
        disable: names of fusions to leave out.
        multi_head_attention: whether to keep projections out of the attention.
        model_type: patterns that ONNX Runtime's optimizer looks for.
        num_heads, hidden_size: for ONNX Runtime's optimizer; None to read them from the graph.
        mask: `any`, `right-padded` or `none`.
    """

    method: str
    level: str
    disable: Sequence[str]
    multi_head_attention: bool
    model_type: str
    num_heads: int | None
    hidden_size: int | None
    mask: str
