"""Columns of a table as inputs of a converted model: joined to a matrix, or cast to the type that it computes in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import ModelProto


NUMBERS = "iufb"  # kinds of types of NumPy


def widen(columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the columns, with numbers in float64."""
    return {
        name: values.astype(np.float64, copy=False) if values.dtype.kind in NUMBERS else values
        for name, values in columns.items()
    }


def matrix_of(columns: Mapping[str, NDArray[Any]]) -> NDArray[Any] | None:
    """Return the first example of several columns `[n, k]` as a matrix `[1, ...]`; None if some are no numbers.

    Its type is that of floats, if one column has it, else int64.
    """
    numeric = all(values.dtype.kind in NUMBERS and values.ndim == 2 for values in columns.values())  # noqa: PLR2004 - axes
    if len(columns) == 1 or not numeric:
        return None
    kind = next((values.dtype for values in columns.values() if values.dtype.kind == "f"), np.dtype(np.int64))
    return np.concatenate([values[:1].astype(kind) for values in columns.values()], axis=1)


def accept_columns(model: ModelProto, columns: Mapping[str, NDArray[Any]]) -> None:
    """Let a model take columns in their own types: it casts those that differ, and joins all if it takes a matrix.

    Args:
        model: its inputs are the columns, in this order and by any names, or a matrix of them.
        columns: examples, `[n, ...]`.
    """
    from onnx import helper

    from orun.stages._graph.names import make_unique
    from orun.stages._graph.nodes import set_items

    declared = list(model.graph.input)
    is_matrix = len(declared) < len(columns)
    used = {name for node in model.graph.node for name in (*node.input, *node.output)}
    inputs, nodes, parts = [], [], []
    for place, values in enumerate(columns.values()):
        inner = declared[0 if is_matrix else place]
        own, wanted = helper.np_dtype_to_tensor_dtype(values.dtype), inner.type.tensor_type.elem_type
        if own == wanted and not is_matrix:
            inputs.append(inner)
            continue
        parts.append(make_unique(inner.name, used) if is_matrix else inner.name)
        name = make_unique("column", used)
        inputs.append(helper.make_tensor_value_info(name, own, [None, *values.shape[1:]]))
        nodes.append(helper.make_node("Cast", [name], [parts[-1]], to=wanted))
    if is_matrix:
        nodes.append(helper.make_node("Concat", parts, [declared[0].name], axis=1))
    set_items(model.graph.node, (*nodes, *model.graph.node))
    set_items(model.graph.input, inputs)
