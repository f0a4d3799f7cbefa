"""PyTorch's quantization-aware training, from the trained module to integers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver

from orun.errors import StageFailed
from orun.stages._torch.quantized import freeze, stop_training
from tests.stages.modules import rounding
from tests.stages.support import StageRun, answers, run_stage

MODULES = Path(__file__).parents[1] / "modules"
EXPORTERS = ("dynamo", "torchscript")
IMAGE = {"image": {"shape": ["batch", 1, 8, 8], "low": 0, "high": 1}}
STEPS = 0.5  # of logits beyond 10 that have 127 steps: run in integers, a value may be some steps off


def convert(folder: Path, model: str, **params: Any) -> StageRun:
    options = {"model": f"rounding.py:{model}", "inputs": IMAGE, "outputs": ["logits"], "atol": STEPS, **params}
    return run_stage("convert/torch", folder, options, root=MODULES)


def integers(folder: Path, result: StageRun, **params: Any) -> StageRun:
    return run_stage("quantize/qat", folder, params, inputs={"model": result.output}, root=MODULES)


def top_1(path: Path) -> float:
    held_out = rounding.held_out()
    (logits,) = answers(path, {"image": np.asarray(held_out.inputs["image"])})
    return float((logits.argmax(1) == held_out.labels).mean())


@pytest.mark.parametrize(
    ("model", "exporter", "in_float"),
    [
        pytest.param("eager", "dynamo", 0, marks=pytest.mark.slow),
        # Behind its Flatten, over which ONNX Runtime carries no integers.
        pytest.param("eager", "torchscript", 1, marks=pytest.mark.slow),
        ("traced", "torchscript", 0),
    ],
)
def test_what_pytorch_prepared_runs_in_integers(tmp_path: Path, model: str, exporter: str, in_float: int) -> None:
    """Fused fake quantization, activations in 7 bits, batch normalization trained within its convolution."""
    fake = convert(tmp_path, model, exporter=exporter)
    operators = Counter(node.op_type for node in onnx.load(fake.model).graph.node)
    assert not {"BatchNormalization", "Div"} & set(operators)
    result = integers(tmp_path, fake, inputs="rounding.py:held_out")
    assert (result.value("quantized"), result.value("in_float")) == (3, in_float)
    assert top_1(result.model) == pytest.approx(top_1(fake.model), abs=0.005)
    assert top_1(result.model) > 0.9


@pytest.mark.slow
def test_integers_of_pytorch_are_exported_by_the_older_exporter(tmp_path: Path) -> None:
    result = integers(tmp_path, convert(tmp_path, "converted", exporter="torchscript"), inputs="rounding.py:held_out")
    assert (result.value("quantized"), result.value("in_float")) == (3, 0)
    assert top_1(result.model) > 0.9


@pytest.mark.parametrize(
    ("exporter", "params", "why"),
    [
        ("torchscript", {"opset": 12}, "ONNX export of DequantizeLinear in opset 12. Attribute axis is not supported"),
        pytest.param("dynamo", {}, "Conv2dPackedParamsBase", marks=pytest.mark.slow),
    ],
)
def test_integers_that_cannot_be_exported_are_to_be_exported_as_fake_quantization(
    tmp_path: Path, exporter: str, params: dict[str, Any], why: str
) -> None:
    with pytest.raises(StageFailed) as caught:
        convert(tmp_path, "converted_untrained", exporter=exporter, **params)
    assert caught.value.problem == f"PyTorch's {exporter} exporter cannot export the model"
    assert why in caught.value.why
    assert caught.value.hint == (
        "export what training left, before `convert`: its fake quantization is what `quantize/qat` takes; "
        "the log has the whole message"
    )


@pytest.mark.slow  # what the older exporter makes is quick, above
def test_what_torch_export_quantized(tmp_path: Path) -> None:
    """As `convert_pt2e` leaves it: a module that refuses `eval()`, with the operators of `quantized_decomposed`."""
    inputs = {"x": {"shape": ["batch", 8], "low": -2, "high": 2}}
    result = integers(tmp_path, convert(tmp_path, "exported", inputs=inputs, outputs=["y"]))
    assert (result.value("quantized"), result.value("in_float")) == (1, 0)
    assert result.value("max_abs_error") <= 0.5 * 1.001  # a step


RANGES = ((0, 255), (0, 127), (-128, 127), (-127, 127), (-8, 7), (0, 15))


@pytest.mark.parametrize("exporter", EXPORTERS)
@pytest.mark.parametrize(("low", "high"), RANGES)
@pytest.mark.parametrize("per_channel", [False, True])
def test_frozen_it_computes_the_same(low: int, high: int, exporter: str, *, per_channel: bool) -> None:
    observer, scheme = (
        (MovingAveragePerChannelMinMaxObserver, torch.per_channel_symmetric)
        if per_channel
        else (MovingAverageMinMaxObserver, torch.per_tensor_affine)
    )
    dtype = torch.quint8 if low == 0 else torch.qint8
    module = nn.Sequential(FakeQuantize(observer, low, high, dtype=dtype, qscheme=scheme)).train()
    values = torch.linspace(-2, 3, 40).reshape(10, 4).T
    module(values)
    stop_training(module)
    beyond = values * 3  # at rest it does not learn from these
    right = module(beyond)
    assert torch.unique(right).numel() > 10
    np.testing.assert_array_equal(freeze(module, exporter)(beyond), right)
