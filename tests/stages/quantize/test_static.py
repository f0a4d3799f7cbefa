from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from orun.errors import StageFailed
from tests.stages.conftest import MODULES
from tests.stages.models import ADD, WORDY, convolution, parse
from tests.stages.support import StageRun, artifact, run_stage


def quantize(folder: Path, model: Path, dataset: str = "images", **params: Any) -> StageRun:
    asked = {"dataset": f"examples.py:{dataset}", **params}
    return run_stage("quantize/static", folder, asked, inputs={"model": model}, root=MODULES)


def operators(made: StageRun) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(made.model).graph.node)


def noise(path: Path, before: Path, feed: dict[str, np.ndarray[Any, Any]]) -> float:
    """Root mean square of the error, as a part of that of the output."""
    right, found = (
        onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, feed)[0]
        for file in (before, path)
    )
    return float(np.sqrt(np.mean((found - right) ** 2) / np.mean(right**2)))


IMAGES = {"image": np.random.default_rng(0).standard_normal((8, 3, 8, 8)).astype(np.float32)}  # as in examples.py


@pytest.mark.parametrize("method", ["minmax", "entropy", "percentile"])
def test_every_method_is_near(tmp_path: Path, method: str) -> None:
    before = artifact(tmp_path, convolution())
    made = quantize(tmp_path, before, method=method, per_channel=True)
    assert made.value("quantized") == 2
    assert "BatchNormalization" not in operators(made)
    assert noise(made.model, before / "model.onnx", IMAGES) < (
        0.3 if method == "entropy" else 0.05
    )  # it cuts more off than so few examples bear


def test_operators_on_integers(tmp_path: Path) -> None:
    before = artifact(tmp_path, convolution())
    made = quantize(tmp_path, before, format="qoperator")
    assert operators(made).keys() >= {"QLinearConv", "QGemm"}
    assert noise(made.model, before / "model.onnx", IMAGES) < 0.05


def test_wider_types_are_nearer(tmp_path: Path) -> None:
    before = artifact(tmp_path, convolution())
    narrow = quantize(tmp_path, before)
    wide = quantize(tmp_path, before, activation_type="uint16", weight_type="int16")
    errors = [noise(made.model, before / "model.onnx", IMAGES) for made in (narrow, wide)]
    assert errors[1] < errors[0] / 20


def test_a_method_that_cuts_an_outlier_off(tmp_path: Path) -> None:
    before = artifact(tmp_path, parse(WORDY))
    feed = {"x": np.random.default_rng(9).uniform(-3, 3, (50, 4)).astype(np.float32)}
    errors = {
        method: noise(
            quantize(tmp_path, before, "outliers", method=method, percentile=98.0).model, before / "model.onnx", feed
        )
        for method in ("minmax", "percentile")
    }
    assert errors["minmax"] > 0.2
    assert errors["percentile"] < 0.1


def test_fewer_samples_give_other_ranges(tmp_path: Path) -> None:
    before = artifact(tmp_path, parse(WORDY))
    feed = {"x": np.random.default_rng(9).uniform(-3, 3, (50, 4)).astype(np.float32)}
    made = quantize(tmp_path, before, "outliers", samples=100)
    assert noise(made.model, before / "model.onnx", feed) < 0.05


def test_texts_of_different_lengths(tmp_path: Path, tiny_bert: Path) -> None:
    made = quantize(tmp_path, tiny_bert, "tokens", op_types=["MatMul"], per_channel=True)
    assert made.value("quantized") == 12
    assert made.progress[0] == (0, 16, "calibrate")
    assert made.value("max_abs_error") < 0.5


def test_nodes_in_and_out(tmp_path: Path) -> None:
    before = artifact(tmp_path, convolution())
    assert quantize(tmp_path, before, exclude=["conv"]).value("quantized") == 1
    assert quantize(tmp_path, before, include=["conv"], preprocess=False).value("quantized") == 1


def test_a_value_that_never_changes_has_no_histogram(tmp_path: Path, tiny_bert: Path) -> None:
    with pytest.raises(StageFailed) as caught:
        quantize(tmp_path, tiny_bert, "padded", method="entropy")
    assert caught.value.what == "ONNX Runtime cannot quantize the model so"
    assert "bins" in caught.value.why
    assert caught.value.hint == (
        "a value that never changes, such as a mask's, has no histogram: use `method: minmax`, or `op_types` without "
        "the operators that yield it"
    )


def test_data_that_does_not_fit(tmp_path: Path) -> None:
    before = artifact(tmp_path, convolution())
    with pytest.raises(StageFailed) as caught:
        quantize(tmp_path, before, "wrong")
    assert str(caught.value) == (
        "examples.py:wrong must return an orun.Dataset, not a list\n"
        "  hint: wrap the arrays: orun.Dataset({'input name': array})"
    )
    with pytest.raises(StageFailed) as caught:
        quantize(tmp_path, before, "rows")
    assert str(caught.value) == "examples.py:rows has no values for the input 'image' of the model\n  it has x"


def test_nothing_to_quantize(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match="nothing in the model could be quantized"):
        quantize(tmp_path, artifact(tmp_path, parse(ADD)), "threes")
