"""Work-arounds for skl2onnx, each with its canary in `tests/stages/_sklearn/test_compat.py`.

- Truth values among the integer attributes of a tree, which protobuf 7 refuses.
- Trees of scikit-learn without the side to which missing values go: the model sends all of them to the right.
- Thresholds of trees of several labels, rounded to float32 to the side of some values.
- Weights of nearest neighbours from distances below zero, which all come out equal.

Tried with skl2onnx 1.20.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from skl2onnx.algebra.onnx_ops import OnnxAbs
from skl2onnx.common import _container
from skl2onnx.common.tree_ensemble import sklearn_threshold
from skl2onnx.operator_converters import decision_tree, isolation_forest, nearest_neighbours, random_forest

TRACKS = "nodes_missing_value_tracks_true"  # attribute: whether a missing value goes to the left
TREE_CONVERTERS = (decision_tree, isolation_forest, random_forest)  # GradientBoosting takes no missing values


@contextmanager
def write_booleans_as_integers() -> Iterator[None]:
    """Let skl2onnx write truth values in lists of attributes as integers."""
    original = _container.make_node

    def make_node(*arguments: Any, **attributes: Any) -> Any:
        converted = {
            name: [int(item) if isinstance(item, (bool, np.bool_)) else item for item in value]
            if isinstance(value, list)
            else value
            for name, value in attributes.items()
        }
        return original(*arguments, **converted)

    with patch.object(_container, "make_node", make_node):
        yield


@contextmanager
def write_sides_of_missing_values() -> Iterator[None]:
    """Let skl2onnx write to which side scikit-learn's trees send missing values, and values near a threshold."""
    add_tree, populate = decision_tree.add_tree_to_attribute_pairs, decision_tree.populate_tree_attributes

    def add_tree_with_sides(attributes: Any, is_classifier: bool, tree: Any, *arguments: Any, **options: Any) -> None:
        start = len(attributes[TRACKS])
        add_tree(attributes, is_classifier, tree, *arguments, **options)
        attributes[TRACKS][start:] = tree.missing_go_to_left.tolist()

    def populate_with_sides(model: Any, name: str, dtype: Any) -> Any:
        attributes = populate(model, name, dtype)
        attributes[TRACKS] = model.tree_.missing_go_to_left.tolist()
        attributes["nodes_values"] = [  # which it rounds for other trees alone
            value if mode == "LEAF" else sklearn_threshold(value, dtype, mode)
            for value, mode in zip(attributes["nodes_values"], attributes["nodes_modes"], strict=True)
        ]
        return attributes

    with ExitStack() as stack:
        for module in TREE_CONVERTERS:
            stack.enter_context(patch.object(module, "add_tree_to_attribute_pairs", add_tree_with_sides))
        stack.enter_context(patch.object(decision_tree, "populate_tree_attributes", populate_with_sides))
        yield


@contextmanager
def weigh_by_distances() -> Iterator[None]:
    """Let skl2onnx weigh nearest neighbours by their distances; it negates them before it replaces those below 1e-6."""
    original = nearest_neighbours.OnnxMax

    def take_larger(distances: Any, *arguments: Any, op_version: int, **options: Any) -> Any:
        return original(OnnxAbs(distances, op_version=op_version), *arguments, op_version=op_version, **options)

    with patch.object(nearest_neighbours, "OnnxMax", take_larger):
        yield
