"""The outline of an ONNX file agrees with the library onnx."""

from __future__ import annotations

import random

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from orun.report.html.onnx_outline import TYPES, Value, read_outline


def model() -> ModelProto:
    """A model with a graph in a node, a weight that is listed as an input, a constant, and a property."""
    weight = numpy_helper.from_array(np.ones((3, 4), np.float16), "weight")
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.arange(5), "c"))
    inner = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "inner", [], [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    ])  # fmt: skip
    graph = helper.make_graph(
        [constant, helper.make_node("If", ["flag"], ["out"], then_branch=inner, else_branch=inner)],
        "outer",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, None]),
            helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
            helper.make_tensor_value_info("weight", TensorProto.FLOAT16, [3, 4]),
            helper.make_tensor_sequence_value_info("list", TensorProto.FLOAT, None),
        ],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [weight],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.x", 1)])
    made.metadata_props.add(key="orun.tune", value="{}")
    return made


def test_the_outline_of_a_model() -> None:
    outline = read_outline(memoryview(model().SerializeToString()))
    assert list(outline.inputs) == [
        Value("x", "float", ("batch", "3", "?")),
        Value("flag", "bool", ()),
        Value("list", "sequence", None),
    ]
    assert list(outline.outputs) == [Value("out", "float", None)]
    assert outline.opsets == {"ai.onnx": 20, "com.x": 1}
    assert outline.operators == {"Constant": 1, "If": 1, "Identity": 2}
    assert outline.parameters == {"float16": 12, "int64": 5}
    assert outline.metadata == {"orun.tune": "{}"}


def test_types_have_the_names_that_onnx_gives_them() -> None:
    named = {number: name.lower() for name, number in TensorProto.DataType.items() if number < len(TYPES)}
    assert dict(enumerate(TYPES)) == named


@pytest.mark.parametrize("data", [b"", b"no model", b"\x3a\x01", b"\x00" * 9, b"\xff" * 20])
def test_what_is_no_model(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_outline(memoryview(data))


def test_damaged_models_are_read_or_refused_and_nothing_else() -> None:
    sound = model().SerializeToString()
    chance = random.Random(0)
    for _ in range(300):
        data = bytearray(sound)
        data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            read_outline(memoryview(bytes(data[: chance.randrange(len(data) + 1)])))
        except ValueError:
            continue
