"""TensorFlow's quantization-aware training, from Keras to integers, and weights that were stored rounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from orun.stages.quantize._grids import store_integers
from tests.stages.models import parse, weights_of
from tests.stages.support import answers, run_stage

MODULES = Path(__file__).parents[1] / "modules"


@pytest.mark.slow  # the thin cases below are the step that only TensorFlow's export needs
def test_digits_in_integers(tmp_path: Path) -> None:
    from tests.stages.modules import rounding_keras

    options = {"model": "rounding_keras.py:trained", "inputs": {"image": {"low": 0, "high": 1}}, "atol": 1.0}
    fake = run_stage("convert/tensorflow", tmp_path, options, root=MODULES)
    params = {"inputs": "rounding_keras.py:held_out"}
    result = run_stage("quantize/qat", tmp_path, params, inputs={"model": fake.output}, root=MODULES)
    assert (result.value("quantized"), result.value("in_float")) == (3, 0)
    assert "3 weights that were stored rounded:" in result.log
    held_out = rounding_keras.held_out()

    def top_1(path: Path) -> float:
        (logits,) = answers(path, {"image": np.asarray(held_out.inputs["image"])})
        return float((logits.argmax(1) == held_out.labels).mean())

    assert top_1(result.model) == pytest.approx(top_1(fake.model), abs=0.005)
    assert top_1(result.model) > 0.9


GEMM = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[n, 4] x) => (float[n, 3] y) <float[4, 3] w = {%s}> { y = MatMul (x, w) }
"""


def model_of(weight: NDArray[np.float32]) -> onnx.ModelProto:
    return parse(GEMM % ", ".join(f"{value:.9g}" for value in weight.ravel()))


@pytest.mark.parametrize(("low", "high", "dtype"), [(-128, 127, np.int8), (-127, 127, np.int8), (-3, 252, np.uint8)])
def test_integers_are_found_again(low: int, high: int, dtype: type) -> None:
    scales = np.array([0.0123, 4.5e-4, 17.0], np.float32)
    integers = np.array([[low, high, 0], [high, 0, low], [4, low, high], [1, 7, 10]])
    model = model_of((integers * scales).astype(np.float32))
    assert store_integers(model) == ["w"]
    stored = weights_of(model)
    zero = int(stored["w_zero_point"][0])
    assert stored["w_integers"].dtype == dtype
    np.testing.assert_array_equal(stored["w_integers"].astype(int) - zero, integers)
    np.testing.assert_allclose(stored["w_scale"], scales, rtol=1e-6)
    values: Any = ReferenceEvaluator(model).run(None, {"x": np.eye(4, dtype=np.float32)})
    np.testing.assert_allclose(values[0], (integers * scales).tolist(), rtol=1e-6)


def test_other_weights_stay() -> None:
    weight = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    assert store_integers(model_of(weight)) == []
    wide = np.array([[-200, 1, 1], [200, 1, 1], [1, 1, 1], [1, 1, 1]], np.float32)  # more than 8 bits between them
    assert store_integers(model_of(wide)) == []
