"""The outline of an ONNX model, read by a process of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from orun.report.html.onnx_outline import Value, read_outlines


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
    result = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.x", 1)])
    result.metadata_props.add(key="orun.tune", value="{}")
    return result


def test_the_outline_of_a_model_beside_files_that_are_none(tmp_path: Path) -> None:
    """External data need not be there."""
    path, damaged, empty, newer = (tmp_path / f"{name}.onnx" for name in ("model", "damaged", "empty", "newer"))
    onnx.save(model(), path, save_as_external_data=True, location="weights", size_threshold=0)
    (tmp_path / "weights").unlink()
    damaged.write_bytes(path.read_bytes()[:-9])
    empty.touch()
    unknown = model()
    unknown.graph.input[0].type.tensor_type.elem_type = 99
    onnx.save(unknown, newer)
    outline, *unreadable = read_outlines([path, damaged, empty, newer])
    assert unreadable == [None, None, None]
    assert outline is not None
    assert outline.inputs == (
        Value("x", "float", ("batch", "3", "?")),
        Value("flag", "bool", ()),
        Value("list", "sequence", None),
    )
    assert outline.outputs == (Value("out", "float", None),)
    assert outline.opsets == {"ai.onnx": 20, "com.x": 1}
    assert outline.operators == {"Constant": 1, "If": 1, "Identity": 2}
    assert outline.parameters == {"float16": 12, "int64": 5}
    assert outline.metadata == {"orun.tune": "{}"}


def test_no_model_takes_no_process() -> None:
    assert read_outlines([]) == []
