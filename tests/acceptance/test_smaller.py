"""The pipeline that makes a CNN on real digits smaller in four ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.support import copy_pipelines, run_json

pytestmark = pytest.mark.slow


def test_every_way_keeps_the_accuracy_within_three_points(tmp_path: Path) -> None:
    code, result = run_json(copy_pipelines(tmp_path), "smaller.yaml")
    metrics = {stage["stage"]: stage["metrics"] for stage in result["stages"]}
    before = metrics["student-accuracy"]["accuracy"]["reference"]["value"]
    assert before > 0.93
    for stage in ("student-accuracy", "low-rank-accuracy", "pruned-accuracy", "int8-accuracy"):
        assert metrics[stage]["accuracy"]["value"] > before - 0.03, stage
    assert metrics["student"]["size"]["value"] < metrics["float"]["size"]["value"] / 3.8
    assert {gate["outcome"] for gate in result["verdicts"]} == {"passed"}
    assert code == 0
