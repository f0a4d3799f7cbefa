"""Checker: ONNX Runtime's additions to the standard's domain pass, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import checker, helper, numpy_helper

from orun.errors import OutputRefused
from orun.stages._graph.validity import check
from orun.stages.ensure import check_output
from orun.stages.optimize.transformer import SPEC
from tests.stages.models import ADD, parse


def normalized(operator: str = "SimplifiedLayerNormalization") -> onnx.ModelProto:
    """`ADD` with a normalization of its input, whose scale is its own vector."""
    model = parse(ADD)
    model.graph.node.insert(0, helper.make_node(operator, ["x", "one"], ["normal"], axis=-1))
    model.graph.node[1].input[0] = "normal"
    return model


def test_an_operator_of_onnx_runtime_in_the_standard_domain(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(normalized(), path)
    with pytest.raises(checker.ValidationError, match="No Op registered for SimplifiedLayerNormalization"):
        checker.check_model(str(path))
    check(path)
    check(path, full=True)
    check_output("fuse", SPEC, tmp_path, {})


def test_the_rest_of_such_a_model_is_checked(tmp_path: Path) -> None:
    model = normalized()
    model.graph.node[1].op_type = "NoSuchOperator"
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(OutputRefused) as caught:
        check_output("fuse", SPEC, tmp_path, {})
    assert "No Op registered for NoSuchOperator" in str(caught.value)


def test_its_weights_may_lie_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = normalized()
    weight = numpy_helper.to_array(model.graph.initializer[0])
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "one"))
    onnx.save(model, path, save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    assert (tmp_path / "model.onnx.data").stat().st_size >= weight.nbytes
    check(path)
