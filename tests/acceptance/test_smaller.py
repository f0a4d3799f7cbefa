"""The pipeline that makes a CNN on real digits smaller in four ways."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PIPELINES = Path(__file__).parents[2] / "pipelines"


def test_every_way_keeps_the_accuracy_within_three_points(tmp_path: Path) -> None:
    folder = tmp_path / "pipelines"
    shutil.copytree(PIPELINES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "orun", "smaller.yaml", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=580)
    result = json.loads(done.stdout)
    metrics = {stage["stage"]: stage["metrics"] for stage in result["stages"]}
    before = metrics["student-accuracy"]["accuracy"]["reference"]["value"]
    assert before > 0.93
    for stage in ("student-accuracy", "low-rank-accuracy", "pruned-accuracy", "int8-accuracy"):
        assert metrics[stage]["accuracy"]["value"] > before - 0.03, stage
    assert metrics["student"]["size"]["value"] < metrics["float"]["size"]["value"] / 3.8
    assert {gate["outcome"] for gate in result["verdicts"]} == {"passed"}
    assert done.returncode == 0
