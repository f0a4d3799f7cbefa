"""Three planted faults, each named and each answer tried: a layer hard to quantize, a wrong fusion, a slow place."""

from __future__ import annotations

import re

import pytest

import orun
from orun.blame import accuracy
from orun.blame.blame import find_requests
from orun.cli.main import main
from orun.core.serialization import replace
from tests.blame.conftest import PIPELINES, Planted
from tests.processors import exact_sums
from tests.report.support import PASSED, verdict


@exact_sums
def test_a_layer_that_quantizes_badly(planted: Planted) -> None:
    found = planted.diagnose("layer")
    assert [(one.stage, one.passes) for one in found.levels] == [("import", True), ("simplify", True), ("int8", False)]
    assert (found.culprit, found.chosen) == ("int8", 1)
    assert (found.places[0].node, found.places[0].op) == ("second", "MatMul")
    assert found.places[0].share > 0.99
    assert found.proof is not None
    assert (found.proof.how, found.proof.stage, found.proof.passes) == ("excluded", "int8 without", True)
    assert found.proof.value is not None
    assert found.proof.value > 0.99
    assert re.fullmatch(
        r"`int8` lost 1 of cosine\.min; 100 % of the error enters at second; excluding it brings back 0\.999\d? and "
        r"(costs|saves) (no measurable time \(less than )?[\d.]+ [nµm]s\)?; the gate then passes",
        found.sentence,
    )


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


@exact_sums
def test_few_examples_find_the_stage_and_all_of_them_confirm_it(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy, "PATIENCE", 0.0)  # as if all examples took too long
    found = planted.diagnose("many")
    measured = [name for name in planted.started if name.startswith("accuracy")]
    assert measured == [
        *(
            f"accuracy of 64 examples of {name}" for name in ("int8", "import", "shapes")
        ),  # `same` is `shapes`, byte for byte
        "accuracy of same",
        "accuracy of int8 without",
    ]
    assert [(one.stage, one.passes) for one in found.levels] == [("same", True), ("int8", False)]
    assert (found.culprit, found.places[0].node) == ("int8", "second")
    assert found.proof is not None
    assert found.proof.passes
    assert found.note == "found with 64 examples, measured with all of them"
    monkeypatch.setattr(accuracy, "ROUNDS", 1e9)  # as if there was no time for all of them at all
    hasty = planted.diagnose("many")
    assert [(one.stage, one.passes, one.why) for one in hasty.levels] == [
        ("import", True, ""),
        ("simplify", None, "not needed: less was lost around it"),
        ("shapes", True, ""),
        ("same", True, ""),
        ("int8", False, ""),
    ]
    assert hasty.note == "measured with the first 64 examples, to save time"
    assert hasty.proof is not None
    assert hasty.proof.passes


def test_a_wrong_fusion(planted: Planted) -> None:
    found = planted.diagnose("fusion")
    assert [(one.stage, one.passes) for one in found.levels] == [("import", True), ("fuse", False), ("shapes", False)]
    assert (found.culprit, found.chosen, len(found.places)) == ("fuse", 1, 1)
    (place,) = found.places
    assert (place.node, place.nodes, place.now, place.share) == ("bend", ("first", "bend"), ("FusedGemm",), 1)
    assert found.proof is not None
    assert (found.proof.how, found.proof.value, found.proof.passes) == ("restored", 1, True)
    assert found.sentence.startswith(
        f"`fuse` lost {found.lost:.4g} of cosine.min; 100 % of the error enters at bend, where `Relu` is now "
        f"FusedGemm; computing it as `import` does brings back {found.lost:.4g} and "
    )


def test_a_place_that_was_made_slow(planted: Planted) -> None:
    found = planted.diagnose("slow")
    assert [one.stage for one in found.levels] == ["import", "edit"]
    assert found.culprit == "edit"
    assert found.places[0].nodes == tuple(f"slow_{number}" for number in range(6))
    assert found.places[0].op == "6 for 0"
    assert found.proof is not None
    assert found.proof.seconds is not None
    assert found.proof.seconds.low > 0
    assert re.match(
        r"`edit` takes [\d.]+ µs longer than `import` \([\d.]+ %\); (\d+ %|all) of that is at slow_\d", found.sentence
    )
    assert "; computing it as `import` does saves " in found.sentence


def test_slower_than_the_accepted_baseline(planted: Planted) -> None:
    file = planted.folder / "accepted.yaml"
    assert main([str(file), "--store", str(planted.store), "-q"]) == 0
    assert main(["baseline", "accept", str(file), "--store", str(planted.store)]) == 0
    found = planted.diagnose("accepted", values={"stages.edit.with.function": "faults.py:make_slow"})
    assert [one.stage for one in found.levels] == ["the accepted baseline", "edit"]
    assert found.places[0].nodes == tuple(f"slow_{number}" for number in range(6))
    assert re.match(r"`edit` takes [\d.]+ µs longer than the accepted baseline \(", found.sentence)
    assert "; computing it as the accepted baseline does saves " in found.sentence


def test_asking_again_runs_nothing(planted: Planted) -> None:
    first = planted.diagnose("fusion")
    again = planted.diagnose("fusion")
    assert planted.started == []
    assert again.sentence == first.sentence


def test_no_time_at_all(planted: Planted) -> None:
    found = planted.diagnose("fusion", seconds=0)
    assert found.stopped == "the rest was skipped: time limit reached"
    assert {one.why for one in found.levels} == {"skipped: time limit reached"}
    assert found.sentence == (
        "cosine.min could not be measured at any stage before `accuracy`: skipped: time limit reached"
    )
