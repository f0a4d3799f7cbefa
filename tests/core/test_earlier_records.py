"""Records of earlier versions: names and sentences of then are facts now."""

from __future__ import annotations

import json

import pytest

from orun.core.component_kinds import ComponentKind
from orun.core.earlier_records import components_of, upgraded_run
from orun.core.events import StageFinished, StageStarted, event_from_json
from orun.core.key_component import KeyComponent
from orun.core.reason import Reason, reason
from orun.core.reason_codes import ReasonCode
from orun.core.run_record import RunResult
from orun.core.serialization import decode, encode
from tests.facts import named
from tests.report.support import PASSED


@pytest.mark.parametrize(
    ("name", "kind", "subject", "owner"),
    [
        ("kind", ComponentKind.KIND, "", ""),
        ("stage code", ComponentKind.STAGE_CODE, "", ""),
        ("parameter time of day", ComponentKind.PARAMETER, "time of day", ""),
        ("device cpu", ComponentKind.DEVICE, "cpu", ""),
        ("device cpu of reference_target", ComponentKind.DEVICE, "cpu", "reference_target"),
        ("package onnx of target", ComponentKind.PACKAGE, "onnx", "target"),
        ("reference_target", ComponentKind.TARGET, "", "reference_target"),
        ("read looked up.py", ComponentKind.READ, "looked up.py", ""),
        ("looked for data of mine", ComponentKind.LOOKED_FOR, "data of mine", ""),
    ],
)
def test_names_of_components(name: str, kind: ComponentKind, subject: str, owner: str) -> None:
    assert components_of({name: "1"}) == (KeyComponent(kind, subject, owner, "1"),)
    assert named(components_of({name: "1"})) == {name: "1"}


def test_a_run_of_an_earlier_version_is_read() -> None:
    record = json.loads(json.dumps(encode(PASSED)))
    record["stages"][0] |= {"reasons": ["never run before", "data changed"], "inputs": {"seed": "0"}}
    stage = decode(RunResult, upgraded_run(record)).stages[0]
    assert stage.reasons == (Reason("never-run"), reason(ReasonCode.RECORDED, text="data changed"))
    assert stage.inputs == (KeyComponent(ComponentKind.SEED, value="0"),)


def test_a_verdict_of_an_earlier_version_is_read() -> None:
    record = json.loads(json.dumps(encode(PASSED)))
    for verdict in record["verdicts"]:
        del verdict["finding"]
        verdict |= {"why": "it is within", "caveat": "on other data it may be worse"}
    verdict = decode(RunResult, upgraded_run(record)).verdicts[0]
    assert verdict.finding == reason(ReasonCode.RECORDED, text="it is within")
    assert verdict.caveats == (reason(ReasonCode.RECORDED, text="on other data it may be worse"),)


def test_events_of_version_1_are_read() -> None:
    line = {"version": 1, "event": "stage_started", "time": 1.0, "stage": "int8", "log": "l", "seconds": None}
    event = event_from_json({**line, "reasons": ["data changed"]})
    assert event == StageStarted("int8", (reason(ReasonCode.RECORDED, text="data changed"),), "l", None)
    result = {"stage": "int8", "uses": "k", "outcome": "built", "inputs": {"seed": "0"}}
    finished = event_from_json({"version": 1, "event": "stage_finished", "time": 1.0, "result": result})
    assert isinstance(finished, StageFinished)
    assert finished.result.inputs == (KeyComponent(ComponentKind.SEED, value="0"),)
