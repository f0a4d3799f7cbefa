"""Columns of numbers, joined in an ONNX model to the one matrix that the estimator takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import ModelProto


NUMBERS = "iufb"  # kinds of types of NumPy


def matrix_of(columns: Mapping[str, NDArray[Any]]) -> NDArray[Any] | None:
    """Return the first example of several columns `[n, k]` as a matrix `[1, ...]`; None if some are no numbers.

    Its type is that of floats, if one column has it, else int64.
    """
    numeric = all(values.dtype.kind in NUMBERS and values.ndim == 2 for values in columns.values())  # noqa: PLR2004 - axes
    if len(columns) == 1 or not numeric:
        return None
    kind = next((values.dtype for values in columns.values() if values.dtype.kind == "f"), np.dtype(np.int64))
    return np.concatenate([values[:1].astype(kind) for values in columns.values()], axis=1)


def join_columns(model: ModelProto, name: str, columns: Mapping[str, NDArray[Any]]) -> None:
    """Replace the input `name` of a model, a matrix, by its columns."""
    from onnx import helper

    kind = next(value.type.tensor_type.elem_type for value in model.graph.input if value.name == name)
    parts = [f"{name}_{place}" for place in range(len(columns))]
    nodes = [helper.make_node("Cast", [column], [part], to=kind) for column, part in zip(columns, parts, strict=True)]
    nodes = [*nodes, helper.make_node("Concat", parts, [name], axis=1), *model.graph.node]
    inputs = [
        helper.make_tensor_value_info(column, helper.np_dtype_to_tensor_dtype(values.dtype), [None, values.shape[1]])
        for column, values in columns.items()
    ]
    del model.graph.node[:], model.graph.input[:]
    model.graph.node.extend(nodes)
    model.graph.input.extend(inputs)
