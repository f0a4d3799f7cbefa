"""The pipeline that trains a CNN on real digits and quantizes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.support import copy_pipelines, run_json, shorten

pytestmark = pytest.mark.slow


def test_integers_recognise_digits(tmp_path: Path) -> None:
    code, result = run_json(copy_pipelines(tmp_path), "vision.yaml", *shorten("latency"))
    assert (code, {stage["outcome"] for stage in result["stages"]}) == (0, {"built"}), result
    outcomes = {(gate["stage"], gate["metric"]): gate["outcome"] for gate in result["verdicts"]}
    assert outcomes.pop(("latency", "p50")) == "no baseline"
    assert set(outcomes.values()) == {"passed"}
    metrics = {stage["stage"]: stage["metrics"] for stage in result["stages"]}
    for integers, accuracy, agreement in (("int8", "accuracy", 0.98), ("qat", "qat-accuracy", 0.97)):
        assert metrics[integers]["size"]["value"] < metrics["train"]["size"]["value"] / 3
        assert metrics[integers]["quantized"]["value"] == 4
        assert metrics[accuracy]["accuracy"]["value"] > 0.95
        assert metrics[accuracy]["agreement"]["value"] > agreement
    assert metrics["qat"]["in_float"]["value"] == 0
    assert metrics["latency"]["speedup"]["value"] > 0
    (release,) = [stage for stage in result["stages"] if stage["stage"] == "release"]
    assert {"model.onnx", "manifest.json"} <= {path.name for path in Path(release["out"]).iterdir()}
