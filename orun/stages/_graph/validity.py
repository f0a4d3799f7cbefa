"""The ONNX checker, which knows the standard and not what ONNX Runtime adds to it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

# Operators that ONNX Runtime, and only it, has in the standard domain: fusions of its optimizers yield them.
RUNTIME_OPERATORS = ("SimplifiedLayerNormalization",)
OTHER_DOMAIN = "com.microsoft"


def check(path: Path, *, full: bool = False) -> None:
    """Run the ONNX checker on a model, which it reads by path: a proto in memory ends at 2 GB.

    A model with `RUNTIME_OPERATORS` is checked in memory, with those as operators of a domain that the checker leaves
    alone.

    Args:
        path: of the model; its external data lies beside it.
        full: whether shapes must be inferred without a contradiction too.

    Raises:
        onnx.checker.ValidationError: when the model is not valid.
        onnx.shape_inference.InferenceError: when its shapes contradict one another.
    """
    from onnx import checker

    from orun.stages._graph.io import load_graph

    model = load_graph(path)
    if not _set_apart(model):
        checker.check_model(str(path), full_check=full)
        return
    with contextlib.chdir(path.parent):  # where the checker looks for the external data of a model in memory
        checker.check_model(model, full_check=full)


def _set_apart(model: ModelProto) -> bool:
    """Give ONNX Runtime's operators its domain; whether there were any."""
    from onnx import helper

    from orun.stages._graph.io import nodes

    found: list[NodeProto] = [node for node in nodes(model) if not node.domain and node.op_type in RUNTIME_OPERATORS]
    for node in found:
        node.domain = OTHER_DOMAIN
    if found and all(item.domain != OTHER_DOMAIN for item in model.opset_import):
        model.opset_import.append(helper.make_opsetid(OTHER_DOMAIN, 1))
    return bool(found)
