"""Gates of stages that were skipped, failed or did not run: every report says that they were not judged, and why."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

import onnx
import pytest

import orun
from orun.core.run_record import RunResult
from orun.core.serialization import replace
from orun.eventlog import read_result
from orun.history.run_diff import Change, compare
from orun.report.github import format_commands
from orun.report.gitlab import render_code_quality
from orun.report.junit import render_junit
from orun.report.markdown import render_markdown
from orun.report.terminal import Terminal
from orun.text.markdown import escape
from tests.facts import describe_reasons
from tests.report.support import result_lines
from tests.stages.models import ADD, parse

PIPELINE = """\
targets:
  windows: {providers: [DmlExecutionProvider], missing: skip}
stages:
  import: {uses: convert/onnx, with: {path: model.onnx}, gate: {size: {max: 1MB}}}
  covered:
    uses: check/coverage
    needs: import
    with: {target: windows}
    gate:
      coverage: {min: 90%}
      any: [{fallback: {max: 1}}, {nodes: {max: 4}}]
"""


@pytest.fixture(scope="module")
def skipped(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """The first run of the pipeline, in the folder of the project; later ones find the model imported."""
    folder = tmp_path_factory.mktemp("unjudged")
    onnx.save(parse(ADD), folder / "model.onnx")
    return run(folder)


@pytest.fixture
def project(skipped: RunResult, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, which is the working folder."""
    folder = Path(skipped.file).parent
    monkeypatch.chdir(folder)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    return folder


def run(
    project: Path, values: Mapping[str, object] | None = None, text: str = PIPELINE, *, strict: bool = False
) -> RunResult:
    (project / "gated.yaml").write_text(text)
    return orun.run(project / "gated.yaml", set=values, store=project / "store", strict=strict)


def gates(document: str) -> list[tuple[str, str]]:
    """The test cases of gates, with why they were skipped."""
    root = ET.fromstring(document)  # noqa: S314 -- our own document
    suite = next(element for element in root.iter("testsuite") if element.get("name") == "gated.gates")
    skipped = [(case, case.find("skipped")) for case in suite]
    return [(case.get("name", ""), "" if element is None else element.get("message", "")) for case, element in skipped]


@pytest.mark.usefixtures("project")
def test_of_a_skipped_stage(skipped: RunResult) -> None:
    result = skipped
    assert (result.exit_code, [stage.outcome for stage in result.stages]) == (0, ["built", "skipped"])
    why = f"covered was skipped: {describe_reasons(result['covered'].reasons)[0]}"
    assert why.startswith("covered was skipped: target windows: DmlExecutionProvider does not load on this machine (")
    checklist = render_markdown(result).split("### ")[1].splitlines()[2:5]
    size = result["import"].size
    assert checklist == [
        f"- [x] **import size** max 1MB: {size} B",
        f"- [ ] **covered coverage** min 90%, **not judged**: {escape(why)} (gated.yaml:10:18)",
        f"- [ ] **covered any of 2**, **not judged**: {escape(why)} (gated.yaml:11:7)",
    ]
    shown = result_lines(result, Terminal())
    assert [line.split("  ")[0] for line in shown if line.endswith("not judged")] == [
        "covered coverage",
        "covered any of 2",
    ]
    assert shown[-5:-1] == [
        "",
        f"gated.yaml:10:18: gate not judged: covered coverage min 90%: {why}",
        f"gated.yaml:11:7: gate not judged: covered any of 2: {why}",
        "",
    ]
    left_out = "2 not judged (covered coverage min 90%, covered any of 2)"
    assert re.fullmatch(
        rf"passed: 2 stages \(1 built, 1 skipped\), 1 gate passed, {re.escape(left_out)}, [0-9.]+ \w+; skipped: target "
        r"windows: DmlExecutionProvider does not load on this machine .*\.\.\.; results in store/out/gated",
        shown[-1],
    )
    assert gates(render_junit(result)) == [
        ("import size max 1MB", ""),
        ("covered coverage min 90%", f"not judged: {why}"),
        ("covered any of 2", f"not judged: {why}"),
    ]
    (notice,) = format_commands(result)
    assert notice.startswith(
        "::notice file=gated.yaml,line=5,col=3,title=not judged%3A covered coverage min 90%25%2C covered any of 2::"
        "covered was skipped: target windows"
    )
    assert [
        (issue["severity"], issue["location"]["lines"]["begin"]) for issue in json.loads(render_code_quality(result))
    ] == [
        ("info", 10),
        ("info", 11),
    ]


def test_a_run_in_which_no_gate_was_judged_did_not_pass(skipped: RunResult) -> None:
    result = replace(skipped, verdicts=())
    assert result.outcome == "not judged"
    assert re.fullmatch(
        r"not judged: 2 stages \(1 built, 1 skipped\), 2 gates not judged \(covered coverage min 90%, covered any of "
        r"2\), [0-9.]+ \w+; skipped: target windows: DmlExecutionProvider does not load on this machine .*; results in "
        r".*",
        result_lines(result, Terminal())[-1],
    )


def test_a_run_without_gates_says_why_stages_were_skipped(skipped: RunResult) -> None:
    stages = tuple(replace(stage, unjudged=()) for stage in skipped.stages)
    result = replace(skipped, verdicts=(), stages=stages)
    assert result.outcome == "done"
    assert re.fullmatch(
        r"done: 2 stages \(1 built, 1 skipped\), no gates, [0-9.]+ \w+; skipped: target windows: DmlExecutionProvider "
        r"does not load on this machine .*; results in .*",
        result_lines(result, Terminal())[-1],
    )


def test_it_is_in_the_record_and_of_the_difference(skipped: RunResult, project: Path) -> None:
    judged = run(project, {"targets.windows.providers": ["CPUExecutionProvider"]})
    assert [verdict.outcome for verdict in judged.verdicts if not verdict.depth] == ["passed"] * 3
    assert read_result(skipped.folder)["covered"].unjudged == skipped["covered"].unjudged
    assert compare(judged, skipped).gates == (
        Change("covered coverage min", "90%: passed", "90%: not judged"),
        Change("covered any of 2 any", "passed", "not judged"),
        Change("covered fallback max", "1: passed", None),
        Change("covered nodes max", "4: passed", None),
    )


def test_of_a_stage_that_failed_and_one_behind_it(project: Path) -> None:
    (project / "broken.onnx").write_bytes(b"no model")
    values = {"targets.windows.providers": ["CPUExecutionProvider"], "stages.import.with.path": "broken.onnx"}
    result = run(project, values)
    failure = result["import"].failure
    assert failure is not None
    assert [message for _, message in gates(render_junit(result))] == [
        f"not judged: import failed: {failure.problem}",
        "not judged: covered did not run: import failed",
        "not judged: covered did not run: import failed",
    ]
    assert ", 3 gates not judged, " in result_lines(result, Terminal())[-1]


def test_a_strict_run_fails_for_them(project: Path) -> None:
    for _ in range(2):  # the second from what is remembered of the first
        result = run(project, strict=True)
        assert (result.exit_code, [stage.outcome for stage in result.stages]) == (4, ["cached", "skipped"])
        assert [gate.fails for gate in result["covered"].unjudged] == [True, True]
    why = f"covered was skipped: {describe_reasons(result['covered'].reasons)[0]}"
    assert result_lines(result, Terminal())[-4:-1] == [
        f"gated.yaml:10:18: gate not judged: covered coverage min 90%: {why}",
        f"gated.yaml:11:7: gate not judged: covered any of 2: {why}",
        "",
    ]
    assert result_lines(result, Terminal())[-1].startswith(
        "not judged: 2 stages (1 cached, 1 skipped), 1 gate passed, 2 not judged (covered coverage min 90%, covered any"
    )
    assert (
        f"- [ ] **covered any of 2**, **not judged** (fails the run): {escape(why)} (gated.yaml:11:7)\n"
        in render_markdown(result)
    )
    (command,) = format_commands(result)
    assert command.startswith(
        "::error file=gated.yaml,line=5,col=3,title=not judged%3A covered coverage min 90%25%2C covered"
    )
    assert [issue["severity"] for issue in json.loads(render_code_quality(result))] == ["critical", "critical"]
    root = ET.fromstring(render_junit(result))  # noqa: S314 -- our own document
    assert [element.get("message") for element in root.iter("failure")] == [f"not judged: {why}"] * 2
    assert run(project).exit_code == 0


def test_a_strict_run_fails_for_what_has_no_baseline_and_keeps_the_release_back(project: Path) -> None:
    text = (
        "stages:\n"
        "  import: {uses: convert/onnx, with: {path: model.onnx}}\n"
        "  size: {uses: measure/size, needs: import, gate: {any: [{size: {max_regression: 5%}}]}}\n"
        "  release: {uses: release/bundle, needs: import}\n"
    )
    result = run(project, text=text, strict=True)
    assert (result.exit_code, [verdict.fails for verdict in result.verdicts]) == (4, [True, False])
    assert describe_reasons(result["release"].reasons) == ("a gate of size has no baseline",)
    result = run(project, text=text)
    assert (result.exit_code, [verdict.fails for verdict in result.verdicts]) == (0, [False, False])
    assert result["release"].outcome == "built"


def test_a_strict_run_keeps_a_release_back_whose_gate_is_left_out(project: Path) -> None:
    text = PIPELINE + "  release: {uses: release/bundle, needs: import, with: {version: '2'}}\n"  # not the one above
    result = run(project, text=text, strict=True)
    assert (result.exit_code, describe_reasons(result["release"].reasons)) == (4, ("covered was skipped",))
    assert run(project, text=text)["release"].outcome == "built"
