"""JSON for machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orun.core.metrics import Metric
from orun.core.reason import build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.serialization import encode, replace
from orun.core.source_location import Position, Problem
from orun.errors import PipelineError, StoreError
from orun.report.document import build_error_document, decode_run, dumps
from tests.facts import components

from .support import COSINE, GATE_FAILED, INT8, PASSED, crashed


def test_a_run_is_its_record_and_its_verdict() -> None:
    for result in (PASSED, GATE_FAILED, crashed(Path("int8.log"))):
        document = json.loads(dumps(result))
        assert {**document, "stages": [], "verdicts": []} == {
            "outcome": result.outcome, **encode(result), "stages": [], "verdicts": [],
        }  # fmt: skip
        assert decode_run(document) == result
        assert decode_run({**document, "blame": [{"culprit": "int8"}]}) == result


@pytest.mark.parametrize("damage", [{"stages": 5}, {"stages": [[1]]}, {"verdicts": [[]]}, {"verdicts": None}])
def test_a_damaged_run(damage: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^Expected `(array|object)`, got "):
        decode_run({**json.loads(dumps(PASSED)), **damage})


def test_facts_stand_beside_the_words_for_them() -> None:
    onnx = components({"tool onnx": "onnx 1.23.2", "device cpu of reference_target": "EPYC"})
    known = replace(
        INT8, reasons=(build_reason(ReasonCode.PARAMETER_CHANGED, subject="bits", old="8", new="4"),), inputs=onnx
    )
    (stage,) = json.loads(dumps(replace(PASSED, stages=(known,), verdicts=())))["stages"]
    assert stage["reasons"] == ["parameter bits: 8 -> 4"]
    assert stage["causes"] == [{"code": "parameter-changed", "arguments": {"subject": "bits", "old": "8", "new": "4"}}]
    assert stage["inputs"] == {"tool onnx": "onnx 1.23.2", "device cpu of reference_target": "EPYC"}
    assert stage["components"] == [
        {"kind": "tool", "subject": "onnx", "value": "onnx 1.23.2"},
        {"kind": "device", "subject": "cpu", "owner": "reference_target", "value": "EPYC"},
    ]


def test_the_words_of_a_verdict_stand_beside_its_codes() -> None:
    finding = build_reason(ReasonCode.NO_BASELINE, stage="latency", file="bert.yaml")
    limited = replace(
        COSINE, finding=finding, caveats=(build_reason(ReasonCode.UNCHECKED_TARGET, target="trt", source="x"),)
    )
    (verdict,) = json.loads(dumps(replace(PASSED, verdicts=(limited,))))["verdicts"]
    assert verdict["finding"] == {"code": "no-baseline", "arguments": {"stage": "latency", "file": "bert.yaml"}}
    assert verdict["why"] == "no baseline yet for `latency`; to accept this release: `orun baseline accept bert.yaml`"
    assert verdict["caveats"] == [{"code": "unchecked-target", "arguments": {"target": "trt", "source": "x"}}]
    assert verdict["caveat"].startswith("its speed is that of target trt, on which no gate judges what x answers")


def test_a_figure_that_is_not_finite_is_a_text() -> None:
    broken = replace(INT8, metrics={"cosine": Metric(float("nan")), "ratio": Metric(float("inf"), "x")})
    document = json.loads(dumps(broken))
    assert document["metrics"] == {"cosine": {"value": "nan"}, "ratio": {"value": "inf", "unit": "x"}}


def test_an_error() -> None:
    error = StoreError("the disk is full", why="no space left", hint="free some")
    assert build_error_document(error) == {
        "error": {
            "type": "StoreError",
            "exit_code": 3,
            "problem": "the disk is full",
            "why": "no space left",
            "hint": "free some",
        }
    }


def test_every_problem_of_a_file() -> None:
    place = Position("bert.yaml", 3, 5)
    error = PipelineError([Problem(place, "unknown key 'neeeds'", "    neeeds: export", 6, suggestion="needs")])
    assert json.loads(dumps(build_error_document(error))) == {
        "error": {
            "type": "PipelineError",
            "exit_code": 2,
            "problem": "1 problem in the pipeline file",
            "problems": [
                {
                    "position": {"file": "bert.yaml", "line": 3, "column": 5},
                    "message": "unknown key 'neeeds'",
                    "source": "    neeeds: export",
                    "width": 6,
                    "suggestion": "needs",
                }
            ],
        }
    }
