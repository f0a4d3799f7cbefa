"""Operators of TensorFlow that tf2onnx leaves, in the type of their results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from orun.stages._tf.leftover_operators import replace_leftover_operators
from tests.stages.support import answers, make_context

MODEL = """
<ir_version: 9, opset_import: ["" : 17]>
g (double[n] x) => (double[n] y) {{ y = {operator} (x) }}
"""


@pytest.mark.parametrize(("operator", "right"), [("Log1p", np.log1p), ("Expm1", np.expm1)])
def test_the_last_operator_of_a_model_in_float64(tmp_path: Path, operator: str, right: np.ufunc) -> None:
    model = parser.parse_model(MODEL.format(operator=operator))
    replace_leftover_operators(make_context(tmp_path), model)
    onnx.save(model, tmp_path / "model.onnx")
    x = np.array([0.5, 1.0])
    (y,) = answers(tmp_path / "model.onnx", {"x": x})
    np.testing.assert_allclose(y, right(x), rtol=1e-6)
