"""Canary of the work-around for skl2onnx: remove `compat.py` when this fails."""

from __future__ import annotations

import numpy as np
import pytest
from skl2onnx import to_onnx
from sklearn.ensemble import HistGradientBoostingClassifier

from orun.stages._sklearn.compat import booleans_as_integers

X = np.arange(80, dtype=np.float32).reshape(40, 2)
TREES = HistGradientBoostingClassifier(max_iter=2).fit(X, np.arange(40) % 2)


def test_skl2onnx_writes_truth_values_among_integers() -> None:
    with pytest.raises(ValueError, match="nodes_missing_value_tracks_true"):
        to_onnx(TREES, X[:1])


def test_the_work_around() -> None:
    with booleans_as_integers():
        assert to_onnx(TREES, X[:1]).graph.node
