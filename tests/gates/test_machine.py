"""Times of stages of every class are known to be of this machine, by the fingerprint that each result is kept with."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

import orun
from orun.core.verdict import Verdict
from orun.gates import baselines
from orun.store import Store
from tests.diagnosis.planted import layers
from tests.facts import explain_verdict

STAGES = """
from orun import Estimate, Metric, stage


@stage(inputs={}, output="metrics", metrics=["wait"])
def wait(context, *, seconds: float = 1.0):
    return {"wait": Metric(seconds, "s", "lower", "timing", Estimate(seconds, 0.99 * seconds, 1.01 * seconds))}
"""
PIPELINE = """
stages:
  wait:
    uses: ./stages.py:wait
    gate: {wait: {max: 1min, max_regression: 5%}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "stages.py").write_text(STAGES)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    return tmp_path / "pipeline.yaml"


def verdicts(file: Path, seconds: float) -> tuple[Verdict, ...]:
    return orun.run(file, set={"stages.wait.with.seconds": seconds}, store=file.parent / "store").verdicts


def test_a_portable_stage_that_takes_times(file: Path) -> None:
    """Its key does not hold the machine, and its result says all the same where it was made."""
    within, _ = verdicts(file, 1.0)
    assert explain_verdict(within) == "wait is 1 s (95 % interval 990 ms to 1.01 s), within the maximum of 1min"
    pipeline = orun.load(file)
    with Store.open(file.parent / "store") as store:
        action = store.find_latest("pipeline", "wait")
    assert action is not None
    result = orun.run(file, store=file.parent / "store")
    baselines.accept(pipeline, baselines.build_candidate(pipeline, result, {"wait": action}))
    _, slower = verdicts(file, 2.0)
    assert slower.outcome == "failed"
    assert re.sub(r"\d{4}-\d\d-\d\d", "DAY", explain_verdict(slower)).startswith(
        "the regression of wait against the accepted baseline is 100 % (95 % interval 96 % to 104 %; figures stored on "
        "DAY on this machine, not side by side: wait measures no model that could be measured again): "
        "shown to be more than 5%; "
    )


@pytest.mark.slow
def test_memory_is_of_this_machine(file: Path) -> None:
    onnx.save(layers(), file.parent / "layers.onnx")
    file.write_text(
        "stages:\n  import: {uses: convert/onnx, with: {path: layers.onnx}}\n"
        "  memory: {uses: measure/memory, needs: import, gate: {peak: {max: 1B}}}\n"
    )
    (verdict,) = orun.run(file, store=file.parent / "store").verdicts
    assert verdict.outcome == "failed"
    assert re.fullmatch(r"peak is [\d.]+ MB.*, above the maximum of 1B", explain_verdict(verdict))
    assert "another machine" not in explain_verdict(verdict)
