"""The pipeline that trains a CNN on real digits and quantizes it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

PIPELINES = Path(__file__).parents[2] / "pipelines"


SHORT = ("time=0s", "warmup=0s", "max_launches=3", "samples=6")


def run(folder: Path) -> tuple[int, dict[str, Any]]:
    """Exit code and result; latency takes as long as it is told to."""
    short = [word for value in SHORT for word in ("--set", f"stages.latency.with.{value}")]
    command = [sys.executable, "-m", "orun", "vision.yaml", "--json", *short]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=580)
    result: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, result


def test_integers_recognise_digits(tmp_path: Path) -> None:
    folder = tmp_path / "pipelines"
    shutil.copytree(PIPELINES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    code, result = run(folder)
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
