"""Reasons why `orun init` leaves a stage out: two lines, without paths of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

import orun
from orun.core.run_record import Failure, StageResult
from orun.core.serialization import replace
from orun.core.source_location import Position
from orun.scaffold.left_out import LONGEST, explain_failure, is_in_users_code

ORT = "[ONNXRuntimeError] : 1 : FAIL : "
CASES = [
    (
        Failure(
            "StageFailed",
            f"int8 raised Fail: {ORT}Non-zero status code returned while running Conv node. Name:'a_nchwc' "
            "Status Message: Input channels C is not equal to kernel channels * group.",
            "at /home/me/orun/stages/_graph/inner_values.py:50 in values_of",
            code=Position("/home/me/orun/stages/_graph/inner_values.py", 50, 1),
        ),
        "int8 raised Fail: Input channels C is not equal to kernel channels * group. Next: orun stages quantize/static",
    ),
    (
        Failure(
            "StageFailed",
            "ONNX Runtime cannot open model.onnx for target 'cpu'",
            f"{ORT}Load model from /tmp/a/artifacts/tmp/66-67d/1-int8/inputs/model/model.onnx failed:Fatal error: "
            "com.acme:Fancy(-1) is not a registered function/op, and this goes on for longer than anybody reads",
            "orun doctor\nIts log: int8.log",
            advice="orun doctor",
        ),
        "ONNX Runtime cannot open model.onnx for target 'cpu': Fatal error: com.acme:Fancy(-1) is not a registered function/op, and this goes on for [...]. Next: orun doctor",  # noqa: E501
    ),
    (
        Failure("StageFailed", "no function 'f' in {folder}/data.py", "it defines /opt/lib/x.py: y\nmore"),
        "no function 'f' in data.py: it defines x.py: y. Next: orun stages quantize/static",
    ),
]


@pytest.mark.parametrize(("failure", "reason"), CASES)
def test_what_why_and_what_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Failure, reason: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.py").touch()
    failure = replace(failure, problem=failure.problem.format(folder=tmp_path))
    assert explain_failure(StageResult("int8", "quantize/static", "failed", failure=failure)) == reason
    assert len(reason) <= LONGEST


PACKAGE = Path(orun.__file__).parent


@pytest.mark.parametrize(
    ("code", "is_users"), [("/home/me/data.py", True), (f"{PACKAGE}/stages/_data/files.py", False), ("", False)]
)
def test_whose_code_failed(code: str, is_users: bool) -> None:
    failure = Failure("StageFailed", "accuracy raised ValueError", code=Position(code, 3, 1) if code else None)
    assert is_in_users_code(StageResult("accuracy", "measure/accuracy", "failed", failure=failure)) is is_users
