"""Tests of `quantize/debug`: the planted layer comes first, with figures that can be worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from orun.diagnosis import weights
from orun.errors import UsageError
from orun.measure.metrics.fidelity import SQNR_LIMIT
from tests.diagnosis.planted import layers
from tests.processors import exact_sums
from tests.stages.models import ADD, parse
from tests.stages.support import StageRun, artifact, digest, run_stage


def debug(folder: Path, model: Path, reference: Path, **params: object) -> StageRun:
    return run_stage("quantize/debug", folder, params, inputs={"model": model, "reference": reference})


def rows(result: StageRun) -> dict[str, dict[str, object]]:
    findings = json.loads((result.output / "tensors.json").read_text())["findings"]
    return {row["node"]: row for row in findings}


@exact_sums
def test_the_layer_with_an_outlier_is_the_worst(tmp_path: Path) -> None:
    before = artifact(tmp_path, layers())
    quantized = run_stage("quantize/dynamic", tmp_path, inputs={"model": before})
    result = debug(tmp_path, quantized.output, before)
    document = json.loads((result.output / "tensors.json").read_text())
    assert document["worst"] == "second"
    findings = rows(result)
    assert findings["second"]["share"] == pytest.approx(result.value("share"))
    assert result.value("share") > 0.99
    assert findings["bend"]["local"] is None
    weights = {node: row["weights"] for node, row in findings.items() if row["weights"] is not None}
    assert weights.keys() == {"first", "second", "third"}
    assert min(weights, key=lambda node: float(str(weights[node]))) == "second"
    assert result.value("weights.min") == weights["second"]
    assert result.value("tensors") == 5
    assert (result.output / "tensors.md").read_text().splitlines()[2].startswith("| second | MatMul | 100.0% | 0.0 |")


def test_weights_that_are_compared_in_parts_give_the_same_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = artifact(tmp_path, layers())
    for per_channel in (True, False):
        quantized = run_stage(
            "quantize/dynamic", tmp_path, {"per_channel": per_channel}, inputs={"model": before}
        ).output
        result = debug(tmp_path, quantized, before)
        with monkeypatch.context() as patched:
            patched.setattr(weights, "VALUES", 20)
            parts = debug(tmp_path, quantized, before)
        for name in ("weights.min", "weights.median"):
            assert parts.value(name) == pytest.approx(result.value(name), rel=1e-12)


def test_a_model_against_itself_has_no_noise(tmp_path: Path) -> None:
    before = artifact(tmp_path, layers())
    result = debug(tmp_path, before, before)
    assert {name: result.value(name) for name in result.metrics} == {
        "sqnr": SQNR_LIMIT, "sqnr.min": SQNR_LIMIT, "sqnr.median": SQNR_LIMIT, "tensors": 5, "unmatched": 0
    }  # fmt: skip


def test_noise_that_is_planted_is_found_to_the_digit(tmp_path: Path) -> None:
    """A weight 1.1 times as large makes noise of 1 % of the signal, 20 dB; no noise arises after it."""
    before, changed = layers(), layers()
    weight = next(tensor for tensor in changed.graph.initializer if tensor.name == "w2")
    larger = numpy_helper.to_array(weight) * np.float32(1.1)
    weight.CopyFrom(numpy_helper.from_array(larger, "w2"))
    result = debug(tmp_path, artifact(tmp_path, changed), artifact(tmp_path, before))
    findings = rows(result)
    assert findings["second"]["local"] == pytest.approx(20, abs=1e-4)
    assert findings["second"]["sqnr"] == pytest.approx(20, abs=1e-4)
    assert findings["second"]["share"] == 1
    assert [node for node, row in findings.items() if row["local"] is not None] == ["second"]
    assert result.value("local.min") == findings["second"]["local"]


@exact_sums
def test_names_that_all_changed_are_found_by_what_computes_them_or_by_place(tmp_path: Path) -> None:
    before = artifact(tmp_path, layers())
    quantized = onnx.load(run_stage("quantize/dynamic", tmp_path, inputs={"model": before}).model)
    names = {name: f"t{number}" for number, name in enumerate("abcd")}
    for node in quantized.graph.node:
        node.name = ""
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    del quantized.graph.value_info[:]
    result = debug(tmp_path, artifact(tmp_path, quantized), before)
    assert result.value("tensors") == 5
    assert json.loads((result.output / "tensors.json").read_text())["worst"] == "second"
    assert result.value("share") > 0.99


def test_the_same_bytes_again(tmp_path: Path) -> None:
    before = artifact(tmp_path, layers())
    quantized = run_stage("quantize/dynamic", tmp_path, inputs={"model": before})
    first, second = (debug(tmp_path, quantized.output, before, samples=2) for _ in range(2))
    assert digest(first.output) == digest(second.output)


def test_inputs_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a model does not run on x \[1, 3\]"):
        debug(tmp_path, artifact(tmp_path, parse(ADD)), artifact(tmp_path, layers()))


def test_outputs_that_are_not_the_same(tmp_path: Path) -> None:
    other = layers()
    other.graph.node[-1].output[0] = other.graph.output[0].name = "z"
    with pytest.raises(UsageError, match="the model has no output y, which its reference has"):
        debug(tmp_path, artifact(tmp_path, other), artifact(tmp_path, layers()))
