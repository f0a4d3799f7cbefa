"""Canary of the work-around for TensorFlow: remove `compat.py` when this fails."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
import tf2onnx
from onnx import defs

from orun.stages._tf.compat import without_xla

SIGNATURE = [tf.TensorSpec([None, 8, 8, 4], tf.float32, name="x")]


def unknown_operators(model: keras.Model) -> set[str]:
    """Operators that tf2onnx leaves in the model and ONNX does not have."""
    function = tf.function(lambda x: model(x, training=False), autograph=False)
    converted: Any = tf2onnx.convert.from_function(function, input_signature=SIGNATURE, opset=18)[0]
    return {node.op_type for node in converted.graph.node if not defs.has(node.op_type, 18, "")}


def test_tf2onnx_does_not_see_into_functions_for_xla() -> None:
    model = keras.Sequential([keras.Input((8, 8, 4)), keras.layers.Conv2D(4, 3, groups=2)])
    assert unknown_operators(model) == {"StatefulPartitionedCall"}
    with without_xla():
        assert unknown_operators(model) == set()
