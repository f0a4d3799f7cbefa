from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from orun.errors import UsageError
from orun.stages._graph.feeds import Input
from orun.stages._graph.signature import build_inputs, find_counts
from tests.stages.models import ADD, LOOKUP, parse


def test_axes_whose_size_depends_on_values() -> None:
    model = onnx.parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 20]>
    g (float[n, length] x) => (float[n, boxes] a, float[rows, 2] b)
    { a = Identity (x) b = Identity (x) }
    """)
    assert find_counts(model) == {"a": (1,), "b": (0,)}
    model.graph.output[1].type.tensor_type.shape.dim[0].dim_param = "2 * n"
    assert find_counts(model) == {"a": (1,), "b": ()}


def test_types_axes_and_the_bounds_of_a_look_up() -> None:
    assert build_inputs(parse(LOOKUP)) == (
        Input("ids", "int64", ("batch", "length"), low=0, high=4),
        Input("mask", "int64", ("batch", "length"), fill="mask"),
        Input("extra", "float32", ("batch", 2)),
    )


def test_bytes_with_the_axes_of_an_image_are_pixels() -> None:
    axes = {"image": "n, 24, 24, 3", "frame": "h, w, 3", "flags": "n, 3"}
    inputs = ", ".join(f"uint8[{shape}] {name}" for name, shape in axes.items())
    text = f'<ir_version: 9, opset_import: ["": 20]> g ({inputs}) => (uint8[n, 24, 24, 3] y) {{ y = Identity (image) }}'
    assert build_inputs(onnx.parser.parse_model(text)) == (
        Input("image", "uint8", ("n", 24, 24, 3), low=0, high=255),
        Input("frame", "uint8", ("h", "w", 3), low=0, high=255),
        Input("flags", "uint8", ("n", 3), fill="mask"),
    )


def test_the_tables_of_a_fused_embedding() -> None:
    model = onnx.parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 20, "com.microsoft" : 1]>
    fused (int32[b, s] ids, int32[b, s] kinds) => (float[b, s, 2] y)
    { y, m = com.microsoft.EmbedLayerNormalization (ids, kinds, words, places, segments, gamma, beta) }
    """)
    for name, rows in {"words": 7, "places": 9, "segments": 3}.items():
        model.graph.initializer.append(numpy_helper.from_array(np.zeros((rows, 2), np.float32), name))
    assert [(item.name, item.high) for item in build_inputs(model)] == [("ids", 6), ("kinds", 2)]


def test_an_axis_without_a_name_gets_one() -> None:
    model = parse(ADD)
    model.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_param")
    assert build_inputs(model) == (Input("x", "float32", ("x.0", 3)),)


def test_weights_among_the_inputs_are_none() -> None:
    model = parse(ADD)
    model.graph.input.append(helper.make_tensor_value_info("one", TensorProto.FLOAT, [3]))
    assert [item.name for item in build_inputs(model)] == ["x"]


def test_flags_and_text() -> None:
    model = parse(ADD)
    for name, kind in (("b", TensorProto.BOOL), ("s", TensorProto.STRING)):
        model.graph.input.append(helper.make_tensor_value_info(name, kind, [2]))
    assert build_inputs(model)[1:] == (Input("b", "bool", (2,)), Input("s", "object", (2,)))


def test_an_input_that_is_no_tensor() -> None:
    model = parse(ADD)
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [1]))
    model.graph.input.append(helper.make_value_info("list", kind))
    with pytest.raises(UsageError) as caught:
        build_inputs(model)
    assert str(caught.value) == (
        "input 'list' of the model is not a tensor\n"
        "  values for it cannot be made up\n"
        "  hint: export the model with each tensor in it as an input of its own"
    )


def test_indices_stay_within_their_type() -> None:
    model = onnx.parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 20]>
    narrow (uint8[n] x) => (float[n, 1] y) { wide = Cast <to = 7> (x)
    y = Gather (table, wide) }
    """)
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((999, 1), np.float32), "table"))
    assert build_inputs(model) == (Input("x", "uint8", ("n",), low=0, high=255),)
