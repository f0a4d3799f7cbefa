from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

from orun.environment import processor
from orun.errors import StageFailed
from tests.processors import exact_sums
from tests.stages.models import ADD, FAKE_QUANTIZED, parse, weights_of
from tests.stages.support import StageRun, answers, artifact, run_stage


def quantize(folder: Path, text: str, **params: Any) -> StageRun:
    return run_stage("quantize/qat", folder, params, inputs={"model": artifact(folder, parse(text))})


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(StageFailed) as caught:
        quantize(folder, text)
    return str(caught.value)


def test_weights_become_integers_and_values_stay(tmp_path: Path) -> None:
    result = quantize(tmp_path, FAKE_QUANTIZED)
    model = onnx.load(result.model)
    assert Counter(node.op_type for node in model.graph.node) == {
        "QuantizeLinear": 3,  # of the input and both products: the weight's and the repeated one are gone
        "DequantizeLinear": 5,  # the weight's twice: ONNX Runtime gives each product its own
        "Gemm": 2,
    }
    (stored,) = [weight for weight in weights_of(model).values() if weight.ndim == 2]
    trained = weights_of(parse(FAKE_QUANTIZED))["w"]
    assert stored.dtype == np.int8
    right = np.rint(trained / np.array([[0.01], [0.02], [0.01], [0.03]], np.float32)).clip(-128, 127)
    np.testing.assert_array_equal(stored, right)
    assert (result.value("quantized"), result.value("in_float")) == (1, 0)
    assert result.value("max_abs_error") <= 0.05 * 1.001  # one step of the output


@exact_sums
def test_it_answers_as_the_fake_quantization(tmp_path: Path) -> None:
    result = quantize(tmp_path, FAKE_QUANTIZED)
    feed = {"x": np.random.default_rng(0).uniform(-2, 2, (200, 4)).astype(np.float32)}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    fake = onnxruntime.InferenceSession(
        parse(FAKE_QUANTIZED).SerializeToString(), options, providers=["CPUExecutionProvider"]
    ).run(None, feed)[0]
    integers = answers(result.model, feed)[0]
    steps = np.rint(np.abs(fake - integers) / 0.05)
    assert steps.max() <= 1
    assert (steps == 0).mean() > 0.9


@pytest.mark.skipif(not processor.saturates(), reason="sums of 8-bit products are right on this processor")
def test_where_the_processor_cuts_sums_off_the_model_is_compared_in_float(tmp_path: Path) -> None:
    result = quantize(tmp_path, FAKE_QUANTIZED)
    assert (
        "the integer model disagrees with the fake quantization in output 'y' here: this processor, without VNNI, "
        "saturates sums of 8-bit products. Compared in float instead\n"
    ) in result.log


def test_activations_of_16_bits(tmp_path: Path) -> None:
    """Such weights keep their type; ONNX Runtime has no such products for the CPU and runs them in float."""
    text = FAKE_QUANTIZED.replace('"" : 20', '"" : 21').replace("version: 9", "version: 10")
    for narrow, wide in (("uint8 in_zero = {128}", "uint16 in_zero = {32768}"), ("{0.02}", "{0.0001}")):
        assert narrow in text
        text = text.replace(narrow, wide)
    text = text.replace("uint8 out_zero = {120}", "uint16 out_zero = {32000}").replace("{0.05}", "{0.0005}")
    result = quantize(tmp_path, text)
    stored = weights_of(onnx.load(result.model))
    assert [stored[name].dtype for name in ("in_zero", "out_zero", "w_integers")] == [np.uint16, np.uint16, np.int8]
    assert (result.value("quantized"), result.value("in_float")) == (1, 2)
    assert result.value("max_abs_error") <= 0.0005 * 1.001


def test_an_output_that_is_not_rounded_may_be_off_by_parts_of_its_range(tmp_path: Path) -> None:
    """The output is not rounded, but the integers before it may be a step off."""
    text = FAKE_QUANTIZED.replace("[second] v = Gemm", "[second] y = Gemm")
    text = "".join(line for line in text.splitlines(keepends=True) if "v_integers" not in line)
    result = quantize(tmp_path, text, steps=4.0)
    assert 0 < result.value("max_abs_error") < 0.5
    with pytest.raises(StageFailed, match="the integer model disagrees with the fake quantization in output 'y'"):
        quantize(tmp_path, text, steps=0.0)


def test_a_product_that_stays_in_float_is_counted(tmp_path: Path) -> None:
    text = FAKE_QUANTIZED.replace("z = Gemm <transB = 1> (x_rounded,", "z = Gemm <transB = 1> (x,")
    result = quantize(tmp_path, text)
    assert result.value("in_float") == 1
    assert "1 products run in float, because an input or the output is not quantized:\n  first" in result.log


def test_a_model_without_fake_quantization(tmp_path: Path) -> None:
    assert refusal(tmp_path, ADD) == (
        "the model has no fake quantization\n"
        "  it has neither QuantizeLinear nor DequantizeLinear\n"
        "  hint: `quantize/static` quantizes a float model; `orun stages quantize/qat` says what trains with it"
    )


BROKEN = """
<ir_version: 9, opset_import: ["" : 20]>
broken (float[n, 4] x, float scale) => (float[n, 4] y, float[n, 4] z, float[n, 4] u)
<uint8 zero = {128}, float one = {0.5}, float other = {0.25}, float none = {0}>
{
  [dynamic] a = QuantizeLinear (x, scale, zero)
  [undo] y = DequantizeLinear (a, scale, zero)
  [quantize] b = QuantizeLinear (x, one, zero)
  [differs] z = DequantizeLinear (b, other, zero)
  [flat] c = QuantizeLinear (x, none, zero)
  [cast] u = Cast <to = 1> (c)
}
"""


def test_pairs_that_cannot_become_integers(tmp_path: Path) -> None:
    assert refusal(tmp_path, BROKEN) == (
        "the model's fake quantization cannot become integers\n"
        "  dynamic: scale is computed when the model runs\n"
        "  flat: its integers go into Cast cast\n"
        "  flat: its scale none is not above zero everywhere\n"
        "  quantize: differs takes another scale, zero point or axis\n"
        "  undo: scale is computed when the model runs\n"
        "  hint: each QuantizeLinear needs DequantizeLinear after it, with the same constant scale and zero point"
    )


def test_no_weight_is_quantized(tmp_path: Path) -> None:
    text = """
    <ir_version: 9, opset_import: ["" : 20]>
    only (float[n, 4] x) => (float[n, 4] y) <float scale = {0.1}, uint8 zero = {128}> {
      a = QuantizeLinear (x, scale, zero)
      y = DequantizeLinear (a, scale, zero)
    }
    """
    assert refusal(tmp_path, text) == (
        "nothing in the model could be quantized\n"
        "  no weight of a product is rounded, by a QuantizeLinear or beforehand\n"
        "  hint: `quantize/static` quantizes a float model; `orun stages quantize/qat` says what trains with it"
    )


@exact_sums
@pytest.mark.parametrize("steps", [0.0, 0.5])
def test_integers_too_far_off(tmp_path: Path, steps: float) -> None:
    """Integers are rounded once and fake quantization twice, so some values are a step off."""
    with pytest.raises(StageFailed, match="the integer model disagrees with the fake quantization in output 'y'"):
        quantize(tmp_path, FAKE_QUANTIZED, steps=steps)


def test_integers_that_are_not_those_of_the_fake_quantization(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight one step off is within the tolerance of integers, but not within rounding of float32."""
    from orun.stages.quantize import _grids

    def shifted(model: onnx.ModelProto) -> list[str]:
        (weight,) = [tensor for tensor in model.graph.initializer if len(tensor.dims) > 1]
        values = numpy_helper.to_array(weight).copy()
        values[0, 0] += 1
        weight.CopyFrom(numpy_helper.from_array(values, weight.name))
        return []

    monkeypatch.setattr(_grids, "store_integers", shifted)
    with pytest.raises(StageFailed, match=r"^the model with stored integers disagrees with the fake quantization in "):
        quantize(tmp_path, FAKE_QUANTIZED, steps=20.0)


def test_a_weight_that_is_not_rounded_stays_float(tmp_path: Path) -> None:
    """ONNX Runtime's optimizer would round it, which training did not."""
    model = parser.parse_model(FAKE_QUANTIZED.replace("(again_rounded, w_rounded)", "(again_rounded, other)"))
    other = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(other, "other"))
    result = run_stage("quantize/qat", tmp_path, inputs={"model": artifact(tmp_path, model)})
    assert result.value("quantized") == 1
    np.testing.assert_array_equal(weights_of(onnx.load(result.model))["other"], other)


def test_names_that_the_model_has_already(tmp_path: Path) -> None:
    """`w` is stored rounded next to tensors with the names of its integers; new names are unique."""
    result = quantize(tmp_path, FAKE_QUANTIZED.replace("(again_rounded, w_rounded)", "(again_rounded, w)"))
    names = [tensor.name for tensor in onnx.load(result.model).graph.initializer]
    assert len(names) == len(set(names))
    assert {"w_integers", "w_integers_1", "w_scale", "w_scale_1"} <= set(names)
    assert (result.value("quantized"), result.value("in_float")) == (2, 0)


@pytest.mark.parametrize("scale", [-0.5, np.inf, np.nan])
def test_scales_that_are_none(tmp_path: Path, scale: float) -> None:
    model = parse(BROKEN)
    (none,) = (tensor for tensor in model.graph.initializer if tensor.name == "none")
    none.CopyFrom(numpy_helper.from_array(np.array(scale, np.float32), "none"))
    with pytest.raises(StageFailed, match="\n  flat: its scale none is not above zero everywhere\n"):
        run_stage("quantize/qat", tmp_path, inputs={"model": artifact(tmp_path, model)})


TURNED = """
<ir_version: 9, opset_import: ["" : 20]>
turned (float[2, 2] x) => (float[2, 2] y)
<float one = {0.5}, uint8 zero = {0}, float[2, 2] w = {0.1, -0.2, 0.3, 0.4}, float fine = {0.01}, int8 none = {0}>
{
  stored = QuantizeLinear (w, fine, none)
  weight = DequantizeLinear (stored, fine, none)
  a = QuantizeLinear (x, one)
  b = Transpose <perm = [1, 0]> (a)
  rounded = DequantizeLinear (b, one, zero)
  y = MatMul (rounded, weight)
}
"""


def test_integers_that_are_moved_and_a_zero_point_that_is_left_out(tmp_path: Path) -> None:
    assert quantize(tmp_path, TURNED).value("quantized") == 1


def test_scales_that_do_not_fit_the_weight(tmp_path: Path) -> None:
    text = """
    <ir_version: 9, opset_import: ["" : 20]>
    only (float[n, 2] x) => (float[n, 4] y)
    <int8[2, 4] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[3] scales = {0.1, 0.2, 0.3}, int8[3] zeros = {0, 0, 0}> {
      [weight] rounded = DequantizeLinear <axis = 0> (w, scales, zeros)
      y = MatMul (x, rounded)
    }
    """
    assert refusal(tmp_path, text) == (
        "the model's fake quantization cannot become integers\n"
        "  weight: 3 scales for axis 0 of w, which has 2\n"
        "  hint: each QuantizeLinear needs DequantizeLinear after it, with the same constant scale and zero point"
    )
