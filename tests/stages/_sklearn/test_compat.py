"""Canaries of the work-arounds for skl2onnx: remove one from `compat.py` when its canary fails."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, helper
from onnxruntime import InferenceSession
from skl2onnx import to_onnx
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

from orun.stages._sklearn.compat import (
    TRACKS,
    weigh_by_distances,
    write_booleans_as_integers,
    write_sides_of_missing_values,
)

X = np.arange(80, dtype=np.float32).reshape(40, 2)
TREES = HistGradientBoostingClassifier(max_iter=2).fit(X, np.arange(40) % 2)
WITH_GAPS = np.array([[0.0], [1.0], [np.nan]], np.float32)
TREE = DecisionTreeClassifier().fit(WITH_GAPS, [0, 1, 0])  # which sends missing values to the left

WEIGHED = KNeighborsRegressor(2, weights="distance").fit([[0.0], [3.0]], [0.0, 3.0])


def written_sides(model: ModelProto) -> list[int]:
    (attribute,) = (item for item in model.graph.node[0].attribute if item.name == TRACKS)
    both_sides: list[int] = helper.get_attribute_value(attribute)
    return both_sides


def test_skl2onnx_writes_truth_values_among_integers() -> None:
    with pytest.raises(ValueError, match="nodes_missing_value_tracks_true"):
        to_onnx(TREES, X[:1])


def test_the_work_around() -> None:
    with write_booleans_as_integers():
        assert to_onnx(TREES, X[:1]).graph.node


def test_skl2onnx_sends_missing_values_to_the_right() -> None:
    assert written_sides(to_onnx(TREE, WITH_GAPS)) == [0, 0, 0]


def test_missing_values_to_the_left() -> None:
    with write_sides_of_missing_values():
        assert written_sides(to_onnx(TREE, WITH_GAPS)) == [1, 0, 0]
    assert written_sides(to_onnx(TREE, WITH_GAPS)) == [0, 0, 0]


def predict_one(model: ModelProto) -> float:
    (answers,) = InferenceSession(model.SerializeToString()).run(None, {"X": np.ones((1, 1), np.float32)})
    return float(answers[0, 0])


def test_skl2onnx_weighs_neighbours_equally() -> None:
    assert predict_one(to_onnx(WEIGHED, WITH_GAPS)) == pytest.approx(1.5)


def test_weights_of_distances() -> None:
    with weigh_by_distances():
        assert predict_one(to_onnx(WEIGHED, WITH_GAPS)) == pytest.approx(1)
