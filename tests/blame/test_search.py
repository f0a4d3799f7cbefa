"""Order in which artifacts are measured to find the worst step."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from orun.blame.experiment import Experiment
from orun.blame.search import choose_next_index, measure
from orun.blame.upstream_metrics import choose_judged_metric, choose_sign, list_model_chain
from orun.core.metrics import Better
from orun.core.run_record import RunResult, StageResult
from orun.core.serialization import replace
from orun.pipeline.model import Rule, iter_gates
from tests.gates.support import compared, gate, metric
from tests.pipeline.support import loaded
from tests.report.support import PASSED


def measured(values: Sequence[float | None], sign: int = 1) -> list[int]:
    """The places of a chain in the order in which they are measured."""
    known: dict[int, float | None] = {}
    while (place := choose_next_index(known, len(values), sign)) is not None:
        known[place] = values[place]
    return list(known)


@pytest.mark.parametrize(
    ("values", "order"),
    [
        ([1.0], [0]),
        ([1.0, 0.5], [1, 0]),
        ([1.0, 1.0, 1.0, 1.0, 0.5], [4, 0, 2, 3]),  # the last did it: half of the others are not needed
        ([1.0, 0.5, 0.5, 0.5, 0.5], [4, 0, 2, 1]),
        ([1.0, 0.9, 0.8, 0.2, 0.1], [4, 0, 2, 3]),
        ([1.0, 0.9, 0.6, 0.55, 0.1], [4, 0, 2, 3]),  # less was lost up to the third than in the last step
        ([1.0, 0.5, 0.6, 0.4, 0.2], [4, 0, 2, 1]),
        ([0.7, 0.7, 0.7], [2, 0, 1]),  # nothing was lost: all are looked at
        ([0.5, 0.6, 0.7], [2, 0, 1]),
        ([None, 1.0, 1.0, 0.5], [3, 0, 1, 2]),  # the first cannot be measured
        ([1.0, None, 1.0, 0.5], [3, 0, 2]),
        ([1.0, 1.0, None, 0.5], [3, 0, 2, 1]),
        ([None, None, None], [2, 0, 1]),
    ],
)
def test_no_more_than_it_takes(values: list[float | None], order: list[int]) -> None:
    assert measured(values) == order
    assert measured([None if value is None else -value for value in values], -1) == order


@pytest.mark.parametrize(
    ("rule", "better", "sign"),
    [
        ("min", "lower", 1),  # what makes the gate fail
        ("max_drop", "lower", 1),
        ("max", "higher", -1),
        ("max_increase", "higher", -1),
        ("min_speedup", "higher", 1),  # of those that go by the metric
        ("max_regression", "lower", -1),
        ("max_regression", "neither", -1),
    ],
)
def test_what_is_worse_is_said_by_the_rule_or_else_by_the_metric(rule: Rule, better: Better, sign: int) -> None:
    condition = gate("score", rule, "1", 1.0)
    assert choose_sign(condition, {"score": metric(1.0, better=better)}) == sign
    assert choose_sign(condition, {}) == choose_sign(condition, {"score": metric(1.0)})


def test_one_bad_step_of_many_takes_a_logarithm() -> None:
    for step in range(1, 64):
        values = [1.0] * step + [0.0] * (64 - step)
        assert len(measured(values)) <= 8


FIGURES = {"export": 0.9, "fuse": 0.9, "same": 0.9, "int8": 0.5}
CHAIN = """
stages:
  export: {uses: convert/onnx, with: {path: model.onnx}}
  fuse: {uses: optimize/simplify, needs: export}
  same: {uses: optimize/simplify, needs: fuse}
  int8: {uses: quantize/dynamic, needs: same}
  accuracy:
    uses: measure/accuracy
    needs: NEEDS
    with: {dataset: code.py:pairs, metrics: [accuracy]}
    gate: {accuracy: {min: 95%}}
"""


class KnownFigures(Experiment):
    """An experiment whose measurements are known; `measured` are the models that it measured."""

    def run(self, names: Collection[str]) -> RunResult:
        (name,) = names
        stage = self.added[name]
        model = stage.needs["model"]
        self.measured = [*getattr(self, "measured", ()), model]
        reference = compared(FIGURES["export"], (1.0, 1.0, 1.0)) if "reference" in stage.needs else None
        figure = metric(FIGURES[model], "ratio", "higher", reference=reference)
        measured_stage = StageResult(name, stage.uses, "built", metrics={"accuracy": figure})
        return replace(PASSED, stages=(measured_stage,), verdicts=())


@pytest.mark.parametrize(
    ("needs", "order"),
    [
        ("{model: int8, reference: export}", ["int8", "int8", "same"]),
        ("int8", ["int8", "int8", "export", "same"]),
    ],
)
def test_the_reference_was_measured_beside_the_model(tmp_path: Path, needs: str, order: list[str]) -> None:
    pipeline = loaded(tmp_path, CHAIN.replace("NEEDS", needs))
    stage = pipeline.stage("accuracy")
    (condition,) = iter_gates(stage.gates)
    experiment = KnownFigures(pipeline, tmp_path, 1e6)
    result = measure(experiment, stage, condition, list_model_chain(pipeline, stage), 1.0, "accuracy")
    assert experiment.measured == order
    assert {level.stage: level.value for level in result.levels} == FIGURES | {"fuse": None}
    assert result.levels[0].passes is (False if "reference" in needs else None)


def test_of_a_gate_by_slices_the_worst_slice_is_looked_into() -> None:
    """The figure of all examples may not have moved, and is not what the gate judges."""
    drops = {"a": (0.9, 0.9), "b": (0.8, 0.99), "c": (0.7, 0.71)}
    metrics = {
        f"accuracy[part={name}]": metric(
            value, "ratio", "higher", "sample", reference=compared(other, (value / other,) * 3)
        )
        for name, (value, other) in drops.items()
    } | {"accuracy": metric(0.8, "ratio", "higher"), "accuracy[day=1]": metric(0.1, "ratio", "higher")}
    assert choose_judged_metric(gate("accuracy", "min", "75%", 0.75), metrics) == "accuracy"
    assert choose_judged_metric(replace(gate("accuracy", "min", "75%", 0.75), by="part"), metrics) == "accuracy[part=c]"
    assert choose_judged_metric(replace(gate("accuracy", "max", "75%", 0.75), by="part"), metrics) == "accuracy[part=a]"
    assert (
        choose_judged_metric(replace(gate("accuracy", "max_drop", "1%", 0.01), by="part"), metrics)
        == "accuracy[part=b]"
    )
    assert choose_judged_metric(replace(gate("accuracy", "min", "75%", 0.75), by="hour"), metrics) == "accuracy"
