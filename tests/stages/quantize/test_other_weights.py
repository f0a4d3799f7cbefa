"""Models whose weights are not float32: quantized already, or halved by another converter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper, parser

from orun.errors import StageFailed
from tests.stages.models import WORDY, convolution, parse
from tests.stages.support import artifact, run_stage

STATIC, DYNAMIC, WEIGHTS = "quantize/static", "quantize/dynamic", "quantize/weights"
NOTHING, CANNOT = "nothing in the model could be quantized", "ONNX Runtime cannot quantize the model so"


def refusal(folder: Path, kind: str, model: Path) -> str:
    with pytest.raises(StageFailed) as caught:
        run_stage(kind, folder, inputs={"model": model})
    return str(caught.value)


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        (STATIC, STATIC, CANNOT),
        (STATIC, DYNAMIC, CANNOT),
        (STATIC, WEIGHTS, NOTHING),
        (DYNAMIC, DYNAMIC, NOTHING),
        (DYNAMIC, WEIGHTS, NOTHING),
    ],
)
def test_a_model_that_is_quantized_already(tmp_path: Path, first: str, second: str, problem: str) -> None:
    before = artifact(tmp_path, convolution() if first == STATIC else parse(WORDY))
    names = "ConvBnFusion_W_kernel_quantized, weight_quantized" if first == STATIC else "w_quantized"
    quantized = run_stage(first, tmp_path, inputs={"model": before}).output
    assert refusal(tmp_path, second, quantized) == (
        f"{problem}\n  {names}: quantized already\n  hint: begin with the float32 model"
    )


def test_what_is_left_in_float_is_quantized(tmp_path: Path) -> None:
    half_done = run_stage(STATIC, tmp_path, {"include": ["conv"]}, inputs={"model": artifact(tmp_path, convolution())})
    run = run_stage(DYNAMIC, tmp_path, {"op_types": ["MatMul"]}, inputs={"model": half_done.output})
    assert (half_done.value("quantized"), run.value("quantized")) == (1, 2)


def test_a_convolution_in_float16(tmp_path: Path) -> None:
    """ONNX Runtime casts it on the CPU, between the weight and the node, which the quantizer does not expect."""
    header = '<ir_version: 9, opset_import: ["" : 17]>'
    model = parser.parse_model(
        f"{header} g (float16[n, 2, 4, 4] x) => (float16[n, 3, 2, 2] y) {{ y = Conv (x, half, bias) }}"
    )
    values = np.random.default_rng(0).standard_normal((3, 2, 3, 3)).astype(np.float16)
    bias = np.zeros(3, np.float16)
    model.graph.initializer.extend(map(numpy_helper.from_array, (values, bias), ("half", "bias")))
    assert refusal(tmp_path, DYNAMIC, artifact(tmp_path, model)) == (
        f"{CANNOT}\n  half: in float16, and only float32 is quantized\n"
        "  hint: export the model in float32 (`module.float()` in PyTorch)"
    )


def test_a_table_in_float16(tmp_path: Path) -> None:
    """The quantizer takes it, and makes a model that ONNX Runtime does not open."""
    header = '<ir_version: 9, opset_import: ["" : 17]>'
    model = parser.parse_model(f"{header} g (int64[n] ids) => (float16[n, 4] y) {{ y = Gather (table, ids) }}")
    values = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float16)
    model.graph.initializer.append(numpy_helper.from_array(values, "table"))
    text = refusal(tmp_path, DYNAMIC, artifact(tmp_path, model)).splitlines()
    assert (text[0], text[-1]) == (
        "ONNX Runtime cannot open the quantized model",
        "  hint: export the model in float32 (`module.float()` in PyTorch)",
    )
