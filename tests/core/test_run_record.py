"""Run record, as Python programs and notebooks use it."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import orun.api  # noqa: F401 - it registers the renderers
from orun.core.run_record import Failure
from orun.core.serialization import replace
from orun.core.verdict import Unjudged
from orun.report.frame import COLUMNS
from tests.report.support import ACCURACY, BLOCKED, GATE_FAILED, INT8, LATENCY, PASSED, SLOWER


def test_what_a_run_consists_of_is_shown_in_one_line() -> None:
    assert repr(PASSED) == "RunResult('bert', 'passed', exit_code=0, stages=5, gates=4, run='20260921-141320-1f3c')"
    assert repr(INT8) == "StageResult('int8', 'built', metrics=['size', 'nodes'])"
    broken = replace(INT8, outcome="failed", metrics={}, failure=Failure("StageFailed", "no weights to quantize"))
    assert repr(broken) == "StageResult('int8', 'failed', metrics=[], failure='no weights to quantize')"
    assert repr(SLOWER) == "Verdict('latency p50 max_regression 5%', 'failed', measured=0.081)"
    gate = Unjudged("latency", "p50", "max", "12ms", SLOWER.position)
    assert repr(gate) == "Unjudged('latency p50 max 12ms')"


def test_what_failed() -> None:
    assert (PASSED.ok, PASSED.failed) == (True, ())
    assert (GATE_FAILED.ok, GATE_FAILED.failed) == (False, (SLOWER,))
    broken = replace(INT8, outcome="failed")
    result = replace(GATE_FAILED, exit_code=3, stages=(broken, BLOCKED))
    assert (result.ok, result.failed) == (False, (broken, SLOWER))


def test_a_misspelt_name_is_suggested() -> None:
    assert PASSED["latency"]["p50"] is LATENCY.metrics["p50"]
    with pytest.raises(KeyError) as caught:
        PASSED["latncy"]
    assert str(caught.value) == "run 20260921-141320-1f3c has no stage 'latncy'\n  did you mean latency?"
    with pytest.raises(KeyError) as caught:
        PASSED["accuracy"]["cosine.men"]
    assert str(caught.value) == "stage accuracy has no metric 'cosine.men'\n  did you mean cosine.mean?"
    with pytest.raises(KeyError) as caught:
        PASSED["int8"]["p50"]
    assert str(caught.value) == "stage int8 has no metric 'p50'\n  expected size or nodes"
    with pytest.raises(KeyError) as caught:
        PASSED["int8"][0]  # type: ignore[index] # no list
    assert str(caught.value) == "stage int8 has no metric 0\n  expected size or nodes"


def test_runs_and_stages_are_looked_into_like_mappings() -> None:
    names = [stage.stage for stage in PASSED.stages]
    assert (list(PASSED), PASSED.keys(), dict(PASSED)) == (names, names, dict(zip(names, PASSED.stages, strict=True)))
    assert ("int8" in PASSED, "int4" in PASSED, None in PASSED) == (True, False, False)
    assert (dict(INT8), "size" in INT8, "p50" in INT8) == (INT8.metrics, True, False)
    assert replace(INT8, metrics={})  # no metrics, and yet a result
    with pytest.raises(KeyError) as caught:
        PASSED["release"]["size"]
    assert str(caught.value) == "stage release has no metric 'size'\n  expected no metric: it has none"


def test_a_frame_has_a_row_for_each_stage_and_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for pandas, which is no dependency, shows what its constructor gets."""
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda rows, columns: (rows, columns)))
    rows, columns = replace(PASSED, stages=(INT8, LATENCY)).to_frame()
    assert columns == list(COLUMNS)
    assert rows == [
        ("int8", "size", 22_900_000, None, None, "B", "lower", "built", "quantize/dynamic"),
        ("int8", "nodes", 311, None, None, "", "neither", "built", "quantize/dynamic"),
        ("latency", "p50", 0.00804, 0.00801, 0.00812, "s", "lower", "cached", "measure/latency"),
        ("latency", "speedup", 2.15, 2.11, 2.2, "x", "higher", "cached", "measure/latency"),
    ]
    assert len(PASSED.to_frame()[0]) == sum(len(stage.metrics) for stage in (INT8, ACCURACY, LATENCY))


def test_a_frame_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError) as caught:
        PASSED.to_frame()
    assert str(caught.value) == "to_frame() needs pandas, which is not installed: pip install pandas"
