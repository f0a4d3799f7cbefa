"""ONNX checker for models that may hold operators of ONNX Runtime."""

from __future__ import annotations

import contextlib
from pathlib import Path

from onnx import ModelProto, checker, helper

from orun.stages._graph.io import iter_nodes, load_graph

# Operators in the standard domain that only ONNX Runtime has; its fusions yield them.
RUNTIME_OPERATORS = ("SimplifiedLayerNormalization",)
OTHER_DOMAIN = "com.microsoft"


def check(path: Path, *, full: bool = False) -> None:
    """Run the ONNX checker on a model by path, because a proto in memory has at most 2 GB.

    A model with `RUNTIME_OPERATORS` is checked in memory, with these operators in a domain that the checker ignores. If
    `full`, inferred shapes are checked for contradictions as well.

    Raises:
        onnx.checker.ValidationError: when the model is not valid.
        onnx.shape_inference.InferenceError: when its shapes contradict one another.
    """
    model = load_graph(path)
    if not _move_operators(model):
        checker.check_model(str(path), full_check=full)
        return
    with contextlib.chdir(path.parent):  # where the checker looks for the external data of a model in memory
        checker.check_model(model, full_check=full)


def _move_operators(model: ModelProto) -> bool:
    """Move ONNX Runtime's operators to its domain; return whether there were any."""
    moved = [node for node in iter_nodes(model) if not node.domain and node.op_type in RUNTIME_OPERATORS]
    for node in moved:
        node.domain = OTHER_DOMAIN
    if moved and all(item.domain != OTHER_DOMAIN for item in model.opset_import):
        model.opset_import.append(helper.make_opsetid(OTHER_DOMAIN, 1))
    return bool(moved)
