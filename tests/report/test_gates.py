"""Advice on a gate that makes a run fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orun.core.metrics import Estimate
from orun.core.reason import build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.serialization import replace
from orun.core.source_location import Position
from orun.core.verdict import Verdict
from orun.report.gates import (
    explain_verdict,
    find_place,
    format_caveat_notes,
    format_gate,
    format_gate_notes,
    suggest_next_step,
)
from orun.report.github import format_commands
from orun.report.gitlab import render_code_quality
from orun.report.junit import render_junit
from orun.report.markdown import render_markdown
from orun.report.terminal import Terminal
from orun.text.markdown import escape
from tests.facts import reasons_of

from .support import COSINE, GATE_FAILED, NO_BASELINE, P50, PASSED, RECALL, SLOWER, SPEEDUP, UNSURE, result_lines


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (SLOWER, "if the change is meant, accept it as the new baseline: orun baseline accept pipelines/bert.yaml"),
        (NO_BASELINE, "to compare the next runs with this one: orun baseline accept pipelines/bert.yaml"),
        (
            replace(SLOWER, outcome="undecided", measured=None),  # the accepted model cannot be had here
            "to compare the next runs with this one: orun baseline accept pipelines/bert.yaml",
        ),
        (replace(SLOWER, outcome="undecided"), "to measure again: orun pipelines/bert.yaml --only latency --fresh"),
        (
            replace(
                SLOWER,
                outcome="undecided",
                finding=build_reason(
                    ReasonCode.CHANGE_UNDECIDED,
                    build_reason(ReasonCode.STORED_FIGURES, build_reason(ReasonCode.MODEL_MISSING), noise="timing"),
                ),
            ),
            (
                "the accepted model is missing here: get it from the remote of the machine where it was accepted, "
                "orun pipelines/bert.yaml --remote URL, or use the store of that machine; "
                "or accept this release: orun baseline accept pipelines/bert.yaml"
            ),
        ),
        (SPEEDUP, "to measure again: orun pipelines/bert.yaml --only latency --fresh"),
        (
            replace(
                COSINE, measured=None, finding=build_reason(ReasonCode.NO_DIRECTION, metric="cosine", noun="regression")
            ),
            'judge it by min or max; a stage of your own can return orun.Metric(value, better="lower")',
        ),
        (COSINE, "to see what changed since the run before: orun diff"),
        (replace(COSINE, metric="unknown"), "to see what changed since the run before: orun diff"),
    ],
)
def test_the_next_step(verdict: Verdict, expected: str) -> None:
    assert suggest_next_step(verdict, PASSED) == expected


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (SLOWER, "if the change is meant, accept it as the new baseline: orun baseline accept pipelines/bert.yaml"),
        (SPEEDUP, "to measure again: orun pipelines/bert.yaml --only latency --fresh"),
        (COSINE, "to see what changed since the run before: orun diff"),
        (
            replace(COSINE, stage="export", metric="unknown"),
            "to see what it rests on: orun explain pipelines/bert.yaml export",
        ),
    ],
)
def test_the_next_step_names_the_store_of_the_run(verdict: Verdict, expected: str) -> None:
    assert (
        suggest_next_step(verdict, replace(PASSED, folder=Path("other store/runs/1")))
        == f"{expected} --store 'other store'"
    )


def test_the_next_step_of_a_stage_on_another_machine_names_the_machines() -> None:
    """Without them it would be measured on this machine."""
    stages = tuple(replace(stage, machine="bench-t4", reasons=()) for stage in PASSED.stages)
    run = replace(PASSED, stages=stages)
    options = " --on URL --remote URL"
    assert suggest_next_step(SPEEDUP, run) == (
        f"to measure again: orun pipelines/bert.yaml --only latency --fresh{options}"
    )
    cached = replace(run, stages=tuple(replace(stage, outcome="cached") for stage in stages))
    assert suggest_next_step(COSINE, cached) == (
        f"to see what it rests on: orun explain pipelines/bert.yaml accuracy{options}"
    )


ACCEPT = "orun baseline accept pipelines/bert.yaml"


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (SLOWER, f"if the change is meant, accept it as the new baseline: orun pipelines/bert.yaml; {ACCEPT}"),
        (NO_BASELINE, f"to compare the next runs with this one: orun pipelines/bert.yaml; {ACCEPT}"),
        (SPEEDUP, "to judge it on your machine: orun pipelines/bert.yaml --to latency"),
        (COSINE, "to judge it on your machine: orun pipelines/bert.yaml --to accuracy"),
        (replace(COSINE, stage="export"), "to judge it on your machine: orun pipelines/bert.yaml --to export"),
    ],
)
def test_the_next_step_on_another_machine_needs_no_store(verdict: Verdict, expected: str) -> None:
    """A reviewer has a clone, and neither the runs nor the stored results of the machine of CI."""
    run = replace(PASSED, folder=Path("other store/runs/1"))
    assert suggest_next_step(verdict, run, portable=True) == expected


@pytest.mark.parametrize("portable", [False, True])
def test_nothing_is_to_be_accepted_while_a_gate_fails_that_compares_with_no_baseline(*, portable: bool) -> None:
    """`orun baseline accept` refuses such a run."""
    cosine = replace(COSINE, outcome="failed", fails=True, blocks=True)
    run = replace(GATE_FAILED, verdicts=(cosine, SLOWER))
    command = f"orun pipelines/bert.yaml; {ACCEPT}" if portable else ACCEPT
    assert suggest_next_step(SLOWER, run, portable=portable) == (
        f"if the change is meant, accept it as the new baseline once the other gates pass: {command}"
    )
    other = replace(GATE_FAILED, verdicts=(replace(SLOWER, metric="p90"), SLOWER))
    assert suggest_next_step(SLOWER, other).endswith(f"the new baseline: {ACCEPT}")


def test_the_file_to_accept_is_named_as_one_types_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It need not be the file that the gate stands in, which the other may extend."""
    monkeypatch.chdir(tmp_path)
    file = str(tmp_path / "my next.yaml")
    unsure = replace(NO_BASELINE, finding=build_reason(ReasonCode.NO_BASELINE, stage="latency", file=file))
    assert (
        explain_verdict(unsure)
        == "no baseline yet for `latency`; to accept this release: `orun baseline accept 'my next.yaml'`"
    )


def test_the_run_to_accept_is_named_with_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them the command looked for a run with other values, and failed."""
    monkeypatch.chdir(tmp_path)
    options = {"overrides": {"vars.data": "my photos"}, "store": str(tmp_path / "other store")}
    finding = build_reason(ReasonCode.NO_BASELINE, stage="latency", file=str(tmp_path / "w.yaml"), **options)
    command = "orun baseline accept w.yaml --set 'vars.data=my photos' --store 'other store'"
    assert explain_verdict(replace(NO_BASELINE, finding=finding)) == (
        f"no baseline yet for `latency`; to accept this release: `{command}`"
    )


def test_a_gate_of_the_command_line_is_where_its_stage_is() -> None:
    verdict = replace(COSINE, position=Position("--set", 1, 31))
    stage = replace(PASSED["accuracy"], position=Position("pipelines/bert.yaml", 20, 3))
    other_stages = tuple(item for item in PASSED.stages if item.stage != "accuracy")
    assert find_place(verdict, replace(PASSED, stages=(*other_stages, stage))) == Position("pipelines/bert.yaml", 20, 3)
    without = replace(PASSED, stages=(*other_stages, replace(stage, position=None)))
    assert find_place(verdict, without) == Position(PASSED.file, 1, 1)
    assert find_place(COSINE, PASSED) == COSINE.position


def test_a_gate_of_the_command_line_has_its_place_there() -> None:
    result = replace(PASSED, verdicts=(replace(UNSURE, position=Position("--set", 1, 25)),))
    assert format_gate_notes(result, Terminal()) == [
        (
            "--set: gate undecided: accuracy recall_at_1 max_drop 1%: "
            "the drop is 0.9 % (-0.3 % to 2.1 %), 1% allowed: 2100 more examples would decide it"
        )
    ]
    assert render_markdown(result).partition("checklist")[2].splitlines()[2].endswith(" (--set)")


def test_names_are_quoted_for_the_shell() -> None:
    stage = "accuracy[bits=8]"
    first = replace(PASSED["accuracy"], stage=stage, reasons=(build_reason(ReasonCode.NEVER_RUN),))
    result = replace(PASSED, file="my pipeline.yaml", stages=(first,))
    assert suggest_next_step(replace(COSINE, stage=stage), result) == (
        "to see what it rests on: orun explain 'my pipeline.yaml' 'accuracy[bits=8]'"
    )


def test_gates_that_share_the_next_step_are_told_it_once() -> None:
    failed = replace(COSINE, outcome="failed", fails=True)
    notes = format_gate_notes(
        replace(GATE_FAILED, verdicts=(failed, replace(failed, metric="cosine.mean"))), Terminal()
    )
    assert [line.partition(":")[0] for line in notes] == [PASSED.file, PASSED.file, "  hint"]


def test_what_a_comparison_does_not_tell_is_told_once_a_stage() -> None:
    caveat = "since the baseline was accepted on 2026-11-02: runtime: onnxruntime 1.24.1 -> onnxruntime 1.31.1"
    verdicts = [replace(item, caveats=reasons_of(caveat)) for item in (RECALL, P50, SPEEDUP)]
    result = replace(PASSED, verdicts=(COSINE, *verdicts))
    assert format_caveat_notes(result, Terminal()) == [f"note: accuracy: {caveat}", f"note: latency: {caveat}"]
    assert f"\n\nnote: accuracy: {caveat}\nnote: latency: {caveat}\n" in "\n".join(result_lines(result, Terminal()))
    assert caveat not in "\n".join(result_lines(result, Terminal(), "quiet"))
    assert f"\n\n{escape(f'note: latency: {caveat}')}\n\n" in render_markdown(result)
    assert format_commands(result)[1] == (
        "::notice file=pipelines/bert.yaml,line=37,col=7,title=what no gate of latency tells::"
        "since the baseline was accepted on 2026-11-02: runtime: onnxruntime 1.24.1 -> onnxruntime 1.31.1"
    )
    issues = json.loads(render_code_quality(result))
    assert [(issue["description"], issue["severity"], issue["check_name"]) for issue in issues] == [
        (f"accuracy: {caveat}", "info", "orun/caveat"),
        (f"latency: {caveat}", "info", "orun/caveat"),
    ]
    more = replace(verdicts[2], caveats=reasons_of(caveat, "its data is the `dataset` of int8"))
    assert format_caveat_notes(replace(result, verdicts=(verdicts[1], more)), Terminal()) == [
        f"note: latency: {caveat}; its data is the `dataset` of int8"
    ]
    assert f": it is well within; {caveat.replace('>', '&gt;')}</system-out>" in render_junit(result)


@pytest.mark.parametrize(
    ("rule", "value", "cells"),
    [
        ("max_drop", 0.02, ("2 % drop", "1 % to 3 %")),
        ("max_drop", -0.02, ("2 % rise", "1 % to 3 %")),
        ("max_increase", -0.02, ("2 % decrease", "1 % to 3 %")),
        ("max_regression", 0.02, ("2 % worse", "1 % to 3 %")),
        ("max_regression", -0.02, ("2 % better", "1 % to 3 %")),
    ],
)
def test_a_change_for_the_better_is_no_negative_one(rule: str, value: float, cells: tuple[str, str]) -> None:
    ends = sorted((value / 2, value * 1.5))
    verdict = replace(RECALL, rule=rule, measured=value, interval=Estimate(value, *ends))
    assert format_gate(verdict)[1:3] == cells


def test_a_figure_is_told_from_the_limit_that_it_misses() -> None:
    finding = build_reason(ReasonCode.VALUE_BEYOND, limit=0.012)
    verdict = replace(P50, rule="max", threshold="12ms", unit="s", measured=0.01200001, interval=None, finding=finding)
    assert format_gate(verdict)[1] == "12.00001 ms"
