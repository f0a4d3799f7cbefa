"""Work-around for ONNX Runtime's transformer optimizer, whose fusions scan the graph quadratically.

Needed by onnxruntime 1.31 and 1.32. `tests/stages/optimize/_fusion/test_compat.py` fails when it is not needed.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from onnx import NodeProto

CACHE = "orun_producers"  # attribute of a model that holds the producer of each value


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
