"""Sentences of made-up findings."""

from __future__ import annotations

import math

import pytest

from orun.blame import messages
from orun.blame.diagnosis import Diagnosis, Level, Place, Proof
from orun.blame.origin import EarlierModel
from orun.core.metrics import Comparison, Estimate
from orun.core.serialization import replace
from tests.facts import reasons_of

LEVELS = (Level("fuse", 0.99, passes=True), Level("int8", 0.9, passes=False))
PLACE = Place("/MatMul", 0.83, ("/MatMul",), "MatMul", "y", ("MatMulInteger",))


def diagnosis_of(proof: Proof | None) -> Diagnosis:
    return Diagnosis(
        "accuracy recall min 0.97", "accuracy", "recall", "ratio", "", LEVELS, "int8", 0.09, (PLACE,), 1, proof
    )


@pytest.mark.parametrize(
    ("seconds", "cost"),
    [
        (Estimate(0.0003, 0.0001, 0.0005), " and costs 300 µs"),
        (Estimate(-0.0003, -0.0005, -0.0001), " and saves 300 µs"),
        (Estimate(0.0001, -0.0003, 0.0004), " and costs no measurable time (less than 400 µs)"),
        (Estimate(-0.0001, -0.0005, 0.0002), " and costs no measurable time (less than 500 µs)"),
        (Estimate(0.0001, -math.inf, math.inf), " and costs no measurable time"),
        (None, ""),
    ],
)
def test_what_the_variant_costs(seconds: Estimate | None, cost: str) -> None:
    proof = Proof("excluded", "int8 without", 0.97, passes=True, seconds=seconds)
    assert messages.describe_accuracy(diagnosis_of(proof), "fuse") == (
        "`int8` lost 9 points of recall; 83 % of the error enters at /MatMul; "
        f"excluding it brings back 7 points{cost}; the gate then passes"
    )


@pytest.mark.parametrize(
    ("value", "effect"),
    [
        (0.92, "brings back 2 points"),
        (0.91, "brings back 1 points (which contradicts that share)"),
        (0.89, "does not bring it back (which contradicts that share)"),
    ],
)
def test_a_variant_that_contradicts_the_share(value: float, effect: str) -> None:
    """Of nine points that were lost, 83 % should come back."""
    proof = Proof("excluded", "int8 without", value, passes=False)
    assert messages.describe_accuracy(diagnosis_of(proof), "fuse") == (
        "`int8` lost 9 points of recall; 83 % of the error enters at /MatMul; "
        f"excluding it {effect}; the gate still fails"
    )


@pytest.mark.parametrize(
    ("seconds", "saving"),
    [
        (Estimate(0.003, 0.001, 0.005), "saves 3 ms, 30 % of it"),
        (Estimate(0.001, 0.0005, 0.0015), "saves 1 ms, 10 % of it (which contradicts that share)"),
        (Estimate(0.0, -0.001, 0.001), "saves no measurable time (which contradicts that share)"),
        (Estimate(0.0, -0.009, 0.009), "saves no measurable time"),  # little is known of it
    ],
)
def test_a_saving_that_contradicts_the_share(seconds: Estimate, saving: str) -> None:
    slow = Comparison(0.01, Estimate(2.0, 1.9, 2.1), Estimate(0.01, 0.009, 0.011), "paired")
    place = Place("/Mul", 0.83, ("/Mul",), "1 for 1", before=0.001, after=0.011)
    proof = Proof("restored", "edit restored", seconds=seconds)
    diagnosis = replace(diagnosis_of(proof), culprit="edit", places=(place,))
    assert messages.describe_latency(diagnosis, "fuse", slow) == (
        "`edit` takes 10 ms longer than `fuse` (100 %); 83 % of that is at /Mul (11 ms for 1 ms); "
        f"computing it as in `fuse` {saving}"
    )


def test_a_gate_that_the_first_model_fails_already() -> None:
    """What a later stage loses is told after that: it is not why the gate fails."""
    bad = replace(
        diagnosis_of(Proof("excluded", "int8 without", 0.98, passes=False)),
        levels=(Level("export", 0.95, False), LEVELS[1]),
    )
    start = "the gate fails at `export` already, where recall is 95 %; `int8` lost 9 points of recall"
    assert messages.name_stage_and_start(bad) == start
    assert messages.describe_accuracy(bad, "export") == (
        f"{start}; 83 % of the error enters at /MatMul; excluding it brings back 8 points; the gate still fails"
    )
    unknown = replace(bad, levels=(Level("load", None, why="it failed"), Level("export", 0.99, None), LEVELS[1]))
    assert messages.name_stage_and_start(unknown) == messages.name_stage(unknown) == "`int8` lost 9 points of recall"


@pytest.mark.parametrize(
    ("proof", "end"),
    [
        (None, "not verified"),
        (Proof("restored", "int8 restored", why="it forms a cycle"), "not verified: it forms a cycle"),
        (
            Proof("restored", "int8 restored", 0.88, passes=False),
            "computing it as in `fuse` does not bring it back (which contradicts that share); the gate still fails",
        ),
    ],
)
def test_an_answer_that_was_not_shown(proof: Proof | None, end: str) -> None:
    assert messages.describe_accuracy(diagnosis_of(proof), "fuse") == (
        "`int8` lost 9 points of recall; 83 % of the error enters at /MatMul, "
        f"where `MatMul` is now MatMulInteger; {end}"
    )


@pytest.mark.parametrize(
    ("nodes", "named"),
    [(("a",), "a"), (("a", "b"), "a and 1 more node"), (("a", "b", "c"), "a and 2 more nodes")],
)
def test_how_many_nodes_a_slow_place_has(nodes: tuple[str, ...], named: str) -> None:
    place = Place("a", 0.5, nodes, "2 for 1", before=0.001, after=0.002)
    assert messages.describe_slow(place) == f"{named} (2 ms for 1 ms)"


def test_an_earlier_model_that_is_gone() -> None:
    earlier = EarlierModel(
        "run-7", "export", "aa", "bb", reasons_of("train.py changed", "weights.pt changed"), here=False
    )
    start = "`export` is not the model that it was in run-7 (train.py changed; weights.pt changed)"
    assert messages.describe_changed_model(earlier) == f"{start}, and the earlier model is not in the store any more"
    assert messages.describe_changed_model(replace(earlier, here=True, changes=())) == (
        "`export` is not the model that it was in run-7 (nothing that the runs recorded differs)"
    )
    lost = replace(diagnosis_of(Proof("mixed", "int8 before", why="it failed")), culprit="fuse")
    assert messages.describe_origin(lost, earlier) == (
        "`fuse` added 9 points to recall since run-7: train.py changed; weights.pt changed; not verified: it failed"
    )
