"""Corrections of ONNX Runtime's float16 converter, for versions that name casts by nodes and by values."""

from __future__ import annotations

from onnx import GraphProto, NodeProto, helper

from orun.stages._graph import float16


def cast(source: str, result: str, to: int, name: str) -> NodeProto:
    return helper.make_node("Cast", [source], [result], to=to, name=name)


def converted() -> list[NodeProto]:
    """Two nameless nodes that stay float32, as the converter of ONNX Runtime 1.24 leaves them."""
    return [
        helper.make_node("Tanh", ["x"], ["a"], name="float16/0"),
        helper.make_node("Softplus", ["float16/1_input_cast_0"], ["float16/1_output_cast_0"], name="float16/1"),
        helper.make_node("Softplus", ["float16/2_input_cast_0"], ["y"], name="float16/2"),
        cast("a", "float16/1_input_cast_0", 1, "float16/1_input_cast0"),
        cast("float16/1_output_cast_0", "b", 10, "float16/1_output_cast0"),
        cast("b", "float16/2_input_cast_0", 1, "float16/2_input_cast0"),
    ]


def test_casts_are_named_by_their_values() -> None:
    model = helper.make_model(GraphProto(node=converted()))
    model.graph.value_info.add().name = "float16/2_input_cast_0"
    float16.name_casts(model, {f"float16/{place}" for place in range(3)})
    assert [(node.name, *node.input, *node.output) for node in model.graph.node] == [
        ("float16/0", "x", "a"),
        ("float16/1", "a_cast_to_fp32", "b_cast_to_fp16"),
        ("float16/2", "b_cast_to_fp32", "y"),
        ("a_cast_to_fp32_node", "a", "a_cast_to_fp32"),
        ("b_cast_to_fp16_node", "b_cast_to_fp16", "b"),
        ("b_cast_to_fp32_node", "b", "b_cast_to_fp32"),
    ]
    assert [value.name for value in model.graph.value_info] == ["b_cast_to_fp32"]


def test_nodes_that_stay_float32_are_found_in_every_graph() -> None:
    inner = helper.make_node("Tanh", ["x"], ["inside"], name="kept")
    branch = helper.make_graph([inner], "branch", [], [])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    model = helper.make_model(GraphProto(node=[helper.make_node("Tanh", ["x"], ["z"]), node]))
    names, blocked = float16.name_nodes(model, {"kept"}, {"z"})
    assert names == {"float16/0": "", "float16/1": "", "float16/2": "kept", "float16/3": "kept"}
    assert blocked == ["float16/0", "float16/2", "float16/3"]
