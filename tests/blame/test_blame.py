"""Three planted faults, each named and each answer tried: a layer hard to quantize, a wrong fusion, a slow place."""

from __future__ import annotations

import re

import onnx
import pytest
from onnx import parser

import orun
from orun.blame import accuracy, latency
from orun.blame.blame import find_requests
from orun.cli.main import main
from orun.core.reason import build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.serialization import replace
from orun.pipeline.model import iter_gates
from tests.blame.conftest import PIPELINES, Planted
from tests.processors import exact_sums
from tests.report.support import PASSED, verdict

GROUP = "{any: [{cosine.min: {min: 0.97}}, {cosine.mean: {max: 1}}]}"


def test_of_several_references_it_is_the_one_that_the_gate_fails_against(planted: Planted) -> None:
    """Both stand in one place of the file."""
    file = planted.folder / "references.yaml"
    text = PIPELINES["slow"].replace("reference: import", "reference: import, reference.edited: edit")
    file.write_text(text.replace("speedup: {min: 0.9}", "p50: {min_speedup: 0.9, against: [reference, edited]}"))
    pipeline = orun.load(file)
    passed = replace(
        verdict("latency", "p50", "min_speedup", "0.9", 1, 1.0), position=pipeline.stage("latency").gates[0].position
    )
    verdicts = (passed, replace(passed, scope=" against edited", outcome="failed"))
    (question,) = find_requests(pipeline, replace(PASSED, verdicts=verdicts))
    assert question.gate.against == "edited"


def test_a_member_that_failed_in_a_group_that_passed_is_not_looked_into(planted: Planted) -> None:
    """Named by the user, it is."""
    file = planted.folder / "group.yaml"
    file.write_text(PIPELINES["layer"].replace("{cosine.min: {min: 0.97}}", GROUP))
    pipeline = orun.load(file)
    group = pipeline.stage("accuracy").gates[0]
    member = replace(
        verdict("accuracy", "cosine.min", "min", "0.97", 1, 0.5),
        outcome="failed",
        depth=1,
        position=next(iter_gates([group])).position,
    )
    passed = replace(verdict("accuracy", "any of 2", "any", "", 1, None), position=group.position)
    result = replace(PASSED, verdicts=(passed, member))
    assert list(find_requests(pipeline, result)) == []
    assert [request.gate.metric for request in find_requests(pipeline, result, all_gates=True)] == ["cosine.min"]
    (request,) = find_requests(pipeline, replace(result, verdicts=(replace(passed, outcome="failed"), member)))
    assert request.gate.metric == "cosine.min"


def test_a_gate_that_had_nothing_to_compare_is_not_looked_into(planted: Planted) -> None:
    pipeline = orun.load(planted.folder / "layer.yaml")
    position = pipeline.stage("accuracy").gates[0].position
    failed = replace(verdict("accuracy", "cosine.min", "min", "0.97", 1, None), outcome="failed", position=position)
    result = replace(PASSED, verdicts=(failed,))
    assert [*find_requests(pipeline, result), *find_requests(pipeline, result, all_gates=True)] == []
    (request,) = find_requests(pipeline, replace(result, verdicts=(replace(failed, measured=0.5),)))
    assert request.gate.metric == "cosine.min"


def test_a_threshold_of_another_unit_is_not_looked_into(planted: Planted) -> None:
    """`max: 5%` of a MAPE that counts in percent: no stage upstream made it so."""
    pipeline = orun.load(planted.folder / "layer.yaml")
    position = pipeline.stage("accuracy").gates[0].position
    misfit = build_reason(ReasonCode.THRESHOLD_MISFIT, message="it is 3.5, and no proportion")
    failed = replace(
        verdict("accuracy", "cosine.min", "min", "97%", 1, 3.5), outcome="failed", position=position, finding=misfit
    )
    assert list(find_requests(pipeline, replace(PASSED, verdicts=(failed,)))) == []


SIGNS = """
stages:
  same: {uses: convert/onnx, with: {path: same.onnx}}
  abs: {uses: convert/onnx, with: {path: abs.onnx}}
  turn: {uses: optimize/python, needs: abs, with: {function: faults.py:turn_round, check: false}}
  accuracy:
    uses: measure/accuracy
    needs: {model: turn, reference: same}
    with: {dataset: data.py:more_negative_rows, metrics: [cosine]}
    gate: {cosine: {min: 0.97}}
"""


@pytest.mark.slow
@exact_sums
def test_few_examples_find_the_stage_and_all_of_them_confirm_it(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy, "PATIENCE", 0.0)  # as if all examples took too long
    blamed = planted.diagnose("many")
    measured = [name for name in planted.started if name.startswith("accuracy")]
    assert measured == [
        "accuracy of 64 examples of int8",
        "accuracy of 64 examples of import",
        "accuracy of 64 examples of noted",  # `same` is `noted`, byte for byte
        "accuracy of same",
        "accuracy of int8 without",
    ]
    assert [(level.stage, level.passes) for level in blamed.levels] == [("same", True), ("int8", False)]
    assert (blamed.culprit, blamed.chosen) == ("int8", 1)
    assert (blamed.places[0].node, blamed.places[0].op) == ("second", "MatMul")
    assert blamed.proof is not None
    assert (blamed.proof.how, blamed.proof.stage, blamed.proof.passes) == ("excluded", "int8 without", True)
    assert re.fullmatch(
        r"`int8` lost 1 of cosine\.min; 100 % of the error enters at second; excluding it brings back 0\.99\d*; "
        "the gate then passes",
        blamed.sentence,
    )
    assert blamed.notes == ("found with at most 64 examples, measured with all of them",)
    monkeypatch.setattr(accuracy, "ROUNDS", 1e9)  # as if there was no time for all of them at all
    hasty = planted.diagnose("many")
    assert [(level.stage, level.passes, level.why) for level in hasty.levels] == [
        ("import", True, ""),
        ("simplify", None, "not needed: less was lost around it"),
        ("noted", True, ""),
        ("same", True, ""),
        ("int8", False, ""),
    ]
    assert hasty.notes == (
        "measured with at most 64 of the examples, to save time",
        "places were tried with 8 examples, to save time",
    )
    assert hasty.proof is not None
    assert hasty.proof.passes


BENT = """
<ir_version: 9, opset_import: ["" : 20]>
bent (float[n, 16] x) => (float[n, 16] y)
{
  [bend] a = OPERATOR (x)
  [last] y = Identity (a)
}
"""


def test_all_examples_that_show_no_loss_leave_the_stage_that_few_examples_found(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sign of Abs is right for the few examples, which are positive, and wrong for most of all."""
    for name, operator in (("abs", "Abs"), ("same", "Identity")):
        onnx.save(parser.parse_model(BENT.replace("OPERATOR", operator)), planted.folder / f"{name}.onnx")
    (planted.folder / "signs.yaml").write_text(SIGNS)
    monkeypatch.setattr(accuracy, "PATIENCE", 0.0)  # as if all examples took too long
    blamed = planted.diagnose("signs")
    assert (blamed.culprit, [level.value for level in blamed.levels]) == ("turn", [1.0, -1.0])
    assert blamed.sentence == (
        "`turn` lost 2 of cosine; 100 % of the error enters at bend, where `Abs` is now Abs, Neg; "
        "computing it as in `abs` brings back 2; the gate then passes"
    )
    assert blamed.proof is not None
    assert (blamed.proof.how, blamed.proof.value) == ("restored", 1.0)
    assert blamed.notes == (
        "measured with at most 64 of the examples, to save time", "with all examples no loss was measured",
    )  # fmt: skip


COST = r"(costs|saves) (no measurable time( \(less than [\d.]+ [nµm]s\))?|[\d.]+ [nµm]s)"


@pytest.mark.slow  # computing a place as before is quick, above
def test_a_wrong_fusion(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "TIMING", {"time": 0.1, "samples": 2, "max_launches": 3})
    blamed = planted.diagnose("fusion")
    assert [(level.stage, level.passes) for level in blamed.levels] == [
        ("import", True),
        ("fuse", False),
        ("noted", False),
    ]
    assert (blamed.culprit, blamed.chosen, len(blamed.places)) == ("fuse", 1, 1)
    (place,) = blamed.places
    assert (place.node, place.nodes, place.now, place.share) == ("bend", ("first", "bend"), ("FusedGemm",), 1)
    assert blamed.proof is not None
    assert (blamed.proof.how, blamed.proof.value, blamed.proof.passes) == ("restored", 1, True)
    assert re.fullmatch(
        rf"`fuse` lost {blamed.lost:.4g} of cosine\.min; 100 % of the error enters at bend, where `Relu` is now "
        rf"FusedGemm; computing it as in `import` brings back {blamed.lost:.4g} and {COST}; the gate then passes",
        blamed.sentence,
    )
    again = planted.diagnose("fusion")
    assert (again.sentence, planted.started) == (blamed.sentence, []), "what was measured is in the store"


@pytest.mark.slow
def test_a_place_that_was_made_slow(planted: Planted) -> None:
    blamed = planted.diagnose("slow")
    assert [level.stage for level in blamed.levels] == ["import", "edit"]
    assert blamed.culprit == "edit"
    assert blamed.places[0].nodes == tuple(f"slow_{number}" for number in range(6))
    assert blamed.places[0].op == "6 for 0"
    assert blamed.proof is not None
    assert blamed.proof.seconds is not None
    assert blamed.proof.seconds.low > 0
    assert re.match(
        r"`edit` takes [\d.]+ µs longer than `import` \([\d.]+ %\); (\d+ %|all) of that is at slow_\d", blamed.sentence
    )
    assert "; computing it as in `import` saves " in blamed.sentence


@pytest.mark.slow  # what is slower is quick, in tests/diagnosis/test_slower.py
def test_slower_than_the_accepted_baseline(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "TIMING", {"time": 0.2, "samples": 3, "max_launches": 3})
    file = planted.folder / "accepted.yaml"
    assert main([str(file), "--store", str(planted.store), "-q"]) == 0
    assert main(["baseline", "accept", str(file), "--store", str(planted.store)]) == 0
    blamed = planted.diagnose("accepted", values={"stages.edit.with.function": "faults.py:make_slow"})
    assert [level.stage for level in blamed.levels] == ["the accepted baseline", "edit"]
    assert blamed.places[0].nodes == tuple(f"slow_{number}" for number in range(6))
    assert re.match(r"`edit` takes [\d.]+ µs longer than the accepted baseline \(", blamed.sentence)
    assert "; computing it as in the accepted baseline saves " in blamed.sentence


def test_no_time_at_all(planted: Planted) -> None:
    blamed = planted.diagnose("fusion", seconds=0)
    assert blamed.stopped == "the rest was skipped: time limit reached"
    assert {level.why for level in blamed.levels} == {"skipped: time limit reached"}
    assert blamed.sentence == (
        "cosine.min could not be measured at any stage before `accuracy`: skipped: time limit reached"
    )
