"""Canary of the work-around for TensorFlow: remove `compat.py` when this fails."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import defs

pytestmark = pytest.mark.slow


def unknown_operators(model: Any) -> set[str]:
    """Operators that tf2onnx leaves in the model and ONNX does not have."""
    import tensorflow as tf
    import tf2onnx

    signature = [tf.TensorSpec([None, 8, 8, 4], tf.float32, name="x")]
    function = tf.function(lambda x: model(x, training=False), autograph=False)
    converted: Any = tf2onnx.convert.from_function(function, input_signature=signature, opset=18)[0]
    return {node.op_type for node in converted.graph.node if not defs.has(node.op_type, 18, "")}


def test_tf2onnx_does_not_see_into_functions_for_xla() -> None:
    import keras

    from orun.stages._tf.compat import without_xla

    model = keras.Sequential([keras.Input((8, 8, 4)), keras.layers.Conv2D(4, 3, groups=2)])
    assert unknown_operators(model) == {"StatefulPartitionedCall"}
    with without_xla():
        assert unknown_operators(model) == set()
