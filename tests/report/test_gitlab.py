"""GitLab's Code Quality and metrics reports."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from orun.core.metrics import Metric
from orun.core.serialization import replace
from orun.core.source_location import Position
from orun.report.gitlab import render_code_quality, render_metrics

from .support import GATE_FAILED, LATENCY, PASSED, crashed


def test_all_is_well() -> None:
    assert render_code_quality(PASSED) == "[]\n"


def test_gates_that_did_not_pass() -> None:
    document = json.loads(render_code_quality(GATE_FAILED))
    assert [(issue["severity"], issue["location"], issue["check_name"]) for issue in document] == [
        ("minor", {"path": "pipelines/bert.yaml", "lines": {"begin": 32}}, "orun/gate"),
        ("critical", {"path": "pipelines/bert.yaml", "lines": {"begin": 37}}, "orun/gate"),
    ]
    assert document[1]["description"] == (
        "gate failed: latency p50 max_regression 5%: "
        "8.1 % slower than the accepted baseline (6.2 % to 9.9 %), 5% allowed"
    )


def test_the_same_failure_is_the_same_issue_wherever_it_moved() -> None:
    moved = [replace(verdict, position=replace(verdict.position, line=90)) for verdict in GATE_FAILED.verdicts]
    before, after = (
        [issue["fingerprint"] for issue in json.loads(render_code_quality(result))]
        for result in (GATE_FAILED, replace(GATE_FAILED, verdicts=tuple(moved)))
    )
    assert before == after
    assert len(set(before)) == 2


def test_files_are_named_from_the_top_of_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI_PROJECT_DIR", "/builds/group/project")
    verdict = replace(GATE_FAILED.verdicts[2], position=Position("/builds/group/project/models/bert.yaml", 3, 9))
    (issue,) = json.loads(render_code_quality(replace(PASSED, verdicts=(verdict,))))
    assert issue["location"] == {"path": "models/bert.yaml", "lines": {"begin": 3}}


def test_a_failed_stage(tmp_path: Path) -> None:
    failed = replace(crashed(tmp_path / "log")["int8"], position=Position("pipelines/bert.yaml", 20, 3))
    (issue,) = json.loads(render_code_quality(replace(PASSED, stages=(failed,), verdicts=())))
    assert (issue["severity"], issue["location"]["lines"]["begin"]) == ("blocker", 20)


def test_metrics() -> None:
    odd = replace(LATENCY, stage='a"b\\c\nd', metrics={"x": Metric(math.nan), "y": Metric(-math.inf)})
    assert render_metrics(replace(PASSED, stages=(LATENCY, odd))) == (
        "# TYPE orun_metric gauge\n"
        'orun_metric{pipeline="bert",stage="latency",metric="p50",unit="s"} 0.00804\n'
        'orun_metric{pipeline="bert",stage="latency",metric="speedup",unit="x"} 2.15\n'
        'orun_metric{pipeline="bert",stage="a\\"b\\\\c\\nd",metric="x"} NaN\n'
        'orun_metric{pipeline="bert",stage="a\\"b\\\\c\\nd",metric="y"} -Inf\n'
        "# EOF\n"
    )


def test_the_same_condition_in_two_places_is_two_issues() -> None:
    again = replace(GATE_FAILED.verdicts[2], position=Position("pipelines/bert.yaml", 41, 9))
    document = json.loads(render_code_quality(replace(GATE_FAILED, verdicts=(GATE_FAILED.verdicts[2], again))))
    assert len({issue["fingerprint"] for issue in document}) == 2
    assert len({issue["description"] for issue in document}) == 1
