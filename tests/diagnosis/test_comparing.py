"""Local and inherited errors of segments, on models for which both can be worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from orun.core.targets import Target
from orun.diagnosis import weights
from orun.diagnosis.comparing import Comparison
from orun.diagnosis.segments import Part, Segment, find_differing, find_segments
from orun.diagnosis.values import Pair
from tests.diagnosis.planted import layers

FEEDS = [{"x": np.random.default_rng(1).standard_normal((3, 16)).astype(np.float32)}]


def scaled(factor: float, *names: str) -> ModelProto:
    """The layers with some weights larger by a factor."""
    model = layers(3.0)
    for tensor in model.graph.initializer:
        if tensor.name in names:
            tensor.CopyFrom(numpy_helper.from_array(np.float32(factor) * numpy_helper.to_array(tensor), tensor.name))
    return model


def test_a_place_is_judged_by_itself_and_with_what_came_before_it() -> None:
    """Each of two products is off by a tenth: 20 dB; behind both it is 0.21."""
    pair = Pair(scaled(1.1, "w1", "w2"), layers(3.0), FEEDS, Target("cpu"))
    shared = find_segments(pair.model, pair.reference)
    changed = {segment.theirs.tensor: segment for segment in find_differing(shared, pair.model, pair.reference)}
    rows = {row.segment.name: row for row in Comparison(pair, shared, changed).run(lambda *_: None)}
    local = {name: row.local for name, row in rows.items() if row.local is not None}
    assert local == pytest.approx({"first": 20, "second": 20}, abs=1e-3)
    sqnr = [rows[name].sqnr for name in ("first", "bend", "second")]
    assert sqnr == pytest.approx([20, 20, -20 * math.log10(0.21)], abs=1e-3)


def segment(*names: str) -> Segment:
    """A part that uses these weights."""
    return Segment(Part("y", (), (), ()), Part("y", (), (), names), {})


def holding(**tensors: np.ndarray) -> ModelProto:
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    stored = [numpy_helper.from_array(array, name) for name, array in tensors.items()]
    return onnx.helper.make_model(helper.make_graph([], "g", [], [value], stored))


def test_the_worst_of_the_weights_of_a_place_with_their_zero_points() -> None:
    """A value of the first is one step of 0.1 too large, and one of the second eight steps of 1 too small."""
    right = np.array([[1, 2], [3, 4]], np.float32)
    steps = (right / 0.1 + 10).round().astype(np.uint8)
    steps[1, 1] += 1
    scale, zero = np.array(0.1, np.float32), np.array(10, np.uint8)
    ours = holding(
        a_quantized=steps, a_scale=scale, a_zero_point=zero, b_quantized=steps, b_scale=10 * scale, b_zero_point=zero
    )
    reference = holding(a=right, b=10 * right + np.array([[0, 0], [0, 9]], np.float32), c=right)
    alone = [weights.measure_weights(segment(name), ours, reference) for name in ("a", "b")]
    signal = 10 * math.log10((100 * 14 + 49 * 49) / (8 * 8))
    assert alone == pytest.approx([10 * math.log10(30 / 0.01), signal], abs=1e-2)
    assert weights.measure_weights(segment("a", "b", "c"), ours, reference) == alone[1]
    assert weights.measure_weights(segment("c"), ours, reference) is None
