"""The metric of a gate at an artifact upstream, and why it was not measured."""

from __future__ import annotations

import pytest

from orun.blame.diagnosis import Level
from orun.blame.upstream_metrics import read_level
from orun.core.run_record import Failure, StageResult
from orun.core.serialization import replace
from tests.report.support import PASSED


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        (Failure("StageFailed", "it is too large"), "it is too large"),
        (
            Failure("StageFailed", "ONNX Runtime cannot open model.onnx", "two nodes are called top\nat line 1"),
            "ONNX Runtime cannot open model.onnx: two nodes are called top",
        ),
    ],
)
def test_a_failure_is_told_with_its_cause(failure: Failure, why: str) -> None:
    stage = StageResult("accuracy", "measure/accuracy", "failed", failure=failure)
    result = replace(PASSED, stages=(stage,))
    assert read_level(result, "int8", "accuracy", "cosine") == Level("int8", None, why=why)
