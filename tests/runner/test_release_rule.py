"""The four verdicts in real runs: which releases are built behind them, what the run says, and how it ends."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import orun
from orun.cli.main import main
from orun.core.run_record import RunResult
from orun.report.document import dumps
from orun.report.github import format_commands
from orun.report.gitlab import render_code_quality
from orun.report.html.page import render_page
from orun.report.junit import render_junit
from orun.report.markdown import render_markdown
from orun.report.terminal import Terminal
from tests.facts import describe_reasons
from tests.project import outcomes
from tests.report.support import result_lines

STAGES = """
import orun


@orun.stage(inputs={}, output="files")
def make(context):
    (context.output / "model").write_text("model")


@orun.stage(inputs={"model": "files"}, output="metrics", metrics=["p50", "size"])
def time(context):
    return {
        "p50": orun.Metric(0.0124, "s", "lower", "timing", orun.Estimate(0.0124, 0.0121, 0.0127)),
        "size": orun.Metric(5.0, "B", "lower"),
    }


@orun.stage(inputs={"model": "files"}, output="files")
def copy(context):
    (context.output / "model").write_text((context.inputs["model"] / "model").read_text())


@orun.stage(inputs={"model": "files"}, output="files", releases=True)
def give(context, *, limit: str = ""):
    (context.output / "receipt").write_text("given")


@orun.stage(inputs={"model": "files"}, output="files")
def breaks(context):
    raise ValueError("broken")
"""
MEASURED = """
stages:
  make: {uses: ./own.py:make}
  time: {uses: ./own.py:time, needs: make, gate: {GATE}}
"""
GUARDED = "  give: {uses: ./own.py:give, needs: make}\n"
NAMED = "  give: {uses: ./own.py:give, needs: [make, time]}\n"
BEHIND = "  copied: {uses: ./own.py:copy, needs: [make, time]}\n  give: {uses: ./own.py:give, needs: copied}\n"
UNSURE = "p50: {max: 12.5ms}"
ALLOWED = "p50: {max: 12.5ms, undecided: allow}"
NEW = "p50: {max_regression: 5%}"
TITLE = "time p50 max 12.5ms"
NEW_P50 = "time p50 max_regression 5%"
NEW_SIZE = "time size max_regression 5%"
MORE = "time any of 1 and 1 more"
TIME = re.compile(r", [0-9.]+ (ms|s|min)(;.*)?$")
IS_UNDECIDED = (
    "p50 is 12.4 ms (95 % interval 12.1 ms to 12.7 ms), and the interval holds the maximum of 12.5ms: "
    "measure again with --fresh"
)
NO_BASELINE = "no baseline yet for `time`; to accept this release: `orun baseline accept p.yaml`"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose model was made and measured."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "own.py").write_text(STAGES)
    (folder / "p.yaml").write_text(MEASURED.replace(", gate: {GATE}", ""))
    assert orun.run(folder / "p.yaml").exit_code == 0
    return folder


@pytest.fixture
def project(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that project, which is the working folder."""
    folder = shutil.copytree(measured, tmp_path / "project")
    monkeypatch.chdir(folder)
    for name in ("GITHUB_WORKSPACE", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    return folder


def run(project: Path, gate: str, stages: str, **options: Any) -> RunResult:
    (project / "p.yaml").write_text(MEASURED.replace("GATE", gate) + stages)
    return orun.run("p.yaml", **options)


def last_line(result: RunResult) -> str:
    """The last line as far as the time of the run."""
    return TIME.sub("", result_lines(result, Terminal())[-1])


@pytest.mark.parametrize("release", [GUARDED, NAMED, BEHIND], ids=["guarded", "named", "behind another stage"])
def test_a_release_is_not_built_behind_an_undecided_gate(project: Path, release: str) -> None:
    for force in ((), ("time",)):  # from stored measurements, and from new ones
        result = run(project, UNSURE, release, force=force)
        (verdict,) = result.verdicts
        assert (result.exit_code, result.outcome) == (4, "undecided")
        assert (verdict.outcome, verdict.fails, verdict.blocks) == ("undecided", True, True)
        assert (result["give"].outcome, describe_reasons(result["give"].reasons)) == (
            "blocked",
            ("a gate of time is undecided",),
        )
        assert {name for name, outcome in outcomes(result).items() if outcome == "blocked"} == {"give"}


def test_a_release_that_was_built_before_is_kept_back_too(project: Path) -> None:
    assert run(project, ALLOWED, GUARDED)["give"].outcome == "built"
    assert run(project, UNSURE, GUARDED)["give"].outcome == "blocked"
    result = run(project, ALLOWED, GUARDED)
    assert (result.exit_code, set(outcomes(result).values())) == (0, {"cached"})


@pytest.mark.parametrize(
    ("gate", "release", "code", "outcome"),
    [
        (ALLOWED, GUARDED, 0, "built"),
        (ALLOWED, BEHIND, 0, "built"),
        ("p50: {max: 12.5ms, undecided: block}", GUARDED, 4, "blocked"),
        ("p50: {max: 12.5ms, undecided: fail}", GUARDED, 4, "blocked"),
        (NEW, GUARDED, 0, "built"),
        ("p50: {max_regression: 5%, undecided: fail}", GUARDED, 0, "built"),
        ("p50: {max: 12ms}", GUARDED, 1, "blocked"),
        ("p50: {max: 13ms}", GUARDED, 0, "built"),
        (f"any: [{UNSURE}, size: {{max: 1B}}]", GUARDED, 4, "blocked"),
        (f"any: [{ALLOWED}, size: {{max: 1B}}]", GUARDED, 0, "built"),
        (f"any: [{UNSURE}, size: {{max: 9B}}]", GUARDED, 0, "built"),
        (f"all: [{UNSURE}, size: {{max: 9B}}]", BEHIND, 4, "blocked"),
        (f"all: [{NEW}, size: {{max: 9B}}]", GUARDED, 0, "built"),
        (f"{UNSURE}, size: {{max: 1B}}", GUARDED, 1, "blocked"),
    ],
)
def test_what_a_gate_does_to_a_release(project: Path, gate: str, release: str, code: int, outcome: str) -> None:
    result = run(project, gate, release)
    assert (result.exit_code, result["give"].outcome) == (code, outcome)


@pytest.mark.parametrize(
    ("gate", "code", "copied"),
    [(UNSURE, 0, "built"), (ALLOWED, 0, "built"), ("p50: {max: 12.5ms, undecided: fail}", 4, "blocked")],
)
def test_without_a_release_an_undecided_gate_fails_only_if_it_says_so(
    project: Path, gate: str, code: int, copied: str
) -> None:
    result = run(project, gate, BEHIND.splitlines()[0] + "\n")
    assert (result.exit_code, result.outcome, result["copied"].outcome) == (code, "undecided", copied)


def test_a_run_without_the_release_ends_well(project: Path) -> None:
    """The gate keeps nothing back there."""
    result = run(project, UNSURE, GUARDED, only=("time",))
    assert (result.exit_code, result.outcome, [verdict.fails for verdict in result.verdicts]) == (
        0,
        "undecided",
        [False],
    )


def test_of_a_matrix_the_release_of_the_same_value_is_kept_back(project: Path) -> None:
    (project / "p.yaml").write_text(
        "stages:\n"
        "  make: {uses: ./own.py:make}\n"
        "  time:\n"
        "    uses: ./own.py:time\n"
        "    needs: make\n"
        "    matrix: {limit: [12.5ms, 13ms]}\n"
        '    gate: {p50: {max: "${matrix.limit}"}}\n'
        "  give: {uses: ./own.py:give, needs: make, matrix: {limit: [12.5ms, 13ms]}}\n"
    )
    result = orun.run("p.yaml")
    assert result.exit_code == 4
    assert [result[f"give[limit={limit}]"].outcome for limit in ("12.5ms", "13ms")] == ["blocked", "built"]
    assert [(verdict.stage, verdict.outcome, verdict.fails) for verdict in result.verdicts] == [
        ("time[limit=12.5ms]", "undecided", True),
        ("time[limit=13ms]", "passed", False),
    ]


def test_a_strict_run_wants_a_baseline_and_allows_nothing_undecided(project: Path) -> None:
    for gate, outcome in ((NEW, "no baseline"), (ALLOWED, "undecided")):
        result = run(project, gate, GUARDED, strict=True)
        assert (result.exit_code, result.outcome, result["give"].outcome) == (4, outcome, "blocked")


def test_the_exit_code_when_several_apply(project: Path) -> None:
    """A stage that failed, then a gate that failed, then one that is undecided."""
    broken = "  broken: {uses: ./own.py:breaks, needs: make}\n"
    failed = UNSURE.replace("12.5ms", "12ms")
    (project / "p.yaml").write_text(MEASURED.replace("GATE", failed) + GUARDED + broken)
    assert orun.run("p.yaml", keep_going=True).exit_code == 3
    assert run(project, f"{UNSURE}, size: {{max: 1B}}", GUARDED).exit_code == 1
    assert run(project, f"{UNSURE}, size: {{max_regression: 1%}}", GUARDED).exit_code == 4


@pytest.mark.parametrize(
    ("gate", "release", "line"),
    [
        (UNSURE, GUARDED, f"undecided: 3 stages (1 blocked, 2 cached), 0 of 1 gate passed, 1 undecided ({TITLE})"),
        (
            f"{ALLOWED}, size: {{max: 9B}}",
            GUARDED,
            f"undecided: 3 stages (1 built, 2 cached), 1 of 2 gates passed, 1 undecided ({TITLE})",
        ),
        (
            f"{UNSURE}, size: {{max: 9B, max_regression: 5%}}",
            "",
            f"undecided: 2 stages (2 cached), 1 of 3 gates passed, 1 undecided ({TITLE}), 1 no baseline ({NEW_SIZE})",
        ),
        (
            f"{NEW}, size: {{max: 9B}}",
            GUARDED,
            f"no baseline: 3 stages (1 built, 2 cached), 1 of 2 gates passed, 1 no baseline ({NEW_P50})",
        ),
        ("p50: {max: 13ms}", GUARDED, "passed: 3 stages (1 built, 2 cached), 1 gate passed"),
        (
            "p50: {max: 12.5ms, min: 12.3ms}, any: [p50: {max: 12.6ms}], all: [p50: {max: 12.6ms}]",
            "",
            f"undecided: 2 stages (2 cached), 0 of 4 gates passed, 4 undecided ({TITLE}, time p50 min 12.3ms, {MORE})",
        ),
    ],
)
def test_the_last_line_names_what_was_not_decided(project: Path, gate: str, release: str, line: str) -> None:
    assert last_line(run(project, gate, release)) == line


GATES = "p.gates"  # suite of JUnit
NO_GATES = "\nstages:\n  make: {uses: ./own.py:make}\n"


def reports_of(result: RunResult) -> dict[str, object]:
    """The verdict of a run in each report."""
    document = render_page(result)
    return {
        "console": result_lines(result, Terminal())[-1].partition(":")[0],
        "markdown": render_markdown(result).splitlines()[2].partition(":")[0],
        "json": json.loads(dumps(result))["outcome"],
        "html": document.partition("<title>")[2].partition("</title>")[0],
        "colour": document.partition('class="verdict ')[2].partition('"')[0],
        "exit code": result.exit_code,
    }


def test_a_run_without_gates_is_done(project: Path) -> None:
    (project / "p.yaml").write_text(NO_GATES)
    for _ in range(2):  # planned, and with nothing to do
        result = orun.run("p.yaml")
        assert last_line(result) == "done: 1 stage (1 cached), no gates"
        assert reports_of(result) == {
            "console": "done", "markdown": "done", "json": "done", "html": "p: done", "colour": "dim", "exit code": 0
        }  # fmt: skip
        assert (format_commands(result), render_code_quality(result)) == ([], "[]\n")
    assert main(["p.yaml", "--strict"]) == 0


def test_a_run_that_is_not_asked_for_its_gates_says_so(project: Path) -> None:
    (project / "p.yaml").write_text(MEASURED.replace("GATE", "p50: {max: 13ms}, size: {max: 9B}") + GUARDED)
    result = orun.run("p.yaml", to=("make",))
    left = ["time p50 max 13ms", "time size max 9B"]
    assert last_line(result) == f"done: 1 stage (1 cached), 2 gates not asked for ({', '.join(left)})"
    assert reports_of(result)["colour"] == "doubt"
    assert [line for line in render_markdown(result).splitlines() if line.startswith("- [")] == [
        f"- [ ] **{title}**, **not asked for**" for title in left
    ]
    cases = ET.fromstring(render_junit(result)).iter("testcase")  # noqa: S314 -- our own document
    messages = [
        (case.get("name"), [element.get("message") for element in case])
        for case in cases
        if case.get("classname") == GATES
    ]
    assert messages == [(title, ["not asked for: its stage is not part of this run"]) for title in left]


def test_gates_that_passed_do_not_hide_those_that_were_not_asked_for(project: Path) -> None:
    again = "  again: {uses: ./own.py:time, needs: make, gate: {size: {max: 9B}}}\n"
    (project / "p.yaml").write_text(MEASURED.replace("GATE", "p50: {max: 13ms}") + again)
    result = orun.run("p.yaml", to=("time",))
    assert last_line(result) == "passed: 2 stages (2 cached), 1 gate passed, 1 not asked for (again size max 9B)"
    assert reports_of(result)["colour"] == "doubt"
    complete = orun.run("p.yaml")
    assert last_line(complete) == "passed: 3 stages (3 cached), 2 gates passed"
    assert reports_of(complete)["colour"] == "good"


def gate_report(result: RunResult) -> Mapping[str, object]:
    """What each report says of the only gate, which is at line 4."""
    cases = ET.fromstring(render_junit(result)).iter("testcase")  # noqa: S314 -- our own document
    case = next(element for element in cases if element.get("classname") == GATES)
    (issue,) = json.loads(render_code_quality(result))
    (annotation,) = (line.split("::")[1].split(" ")[0] for line in format_commands(result))
    (task,) = (line[:5] for line in render_markdown(result).splitlines() if line.startswith("- ["))
    document = render_page(result)
    return {
        "junit": next((child.tag for child in case), "passed"),
        "gitlab": issue["severity"],
        "github": annotation,
        "markdown": task,
        "head": document.partition('class="verdict ')[2].partition('"')[0],
        "pill": document.partition('class="pill ')[2].partition('"')[0],
    }


@pytest.mark.parametrize(
    ("gate", "release", "reports"),
    [
        (
            UNSURE, GUARDED,
            {"junit": "failure", "gitlab": "critical", "github": "error", "markdown": "- [ ]", "head": "doubt",
             "pill": "doubt"},
        ),
        (
            ALLOWED, GUARDED,
            {"junit": "skipped", "gitlab": "minor", "github": "warning", "markdown": "- [ ]", "head": "doubt",
             "pill": "doubt"},
        ),
        (
            NEW, GUARDED,
            {"junit": "skipped", "gitlab": "info", "github": "notice", "markdown": "- [ ]", "head": "dim",
             "pill": "dim"},
        ),
    ],
)  # fmt: skip
def test_no_report_is_green(project: Path, gate: str, release: str, reports: Mapping[str, str]) -> None:
    result = run(project, gate, release)
    assert gate_report(result) == reports
    assert 'class="pill good"' not in render_page(result)


def test_the_console_says_why_and_what_to_type(project: Path) -> None:
    lines = result_lines(run(project, UNSURE, GUARDED), Terminal())
    assert lines[-4:-1] == [
        f"p.yaml:4:57: gate undecided: {TITLE}: {IS_UNDECIDED}",
        "  hint: to measure again: orun p.yaml --only time --fresh",
        "",
    ]
    assert result_lines(run(project, NEW, GUARDED), Terminal())[-3:-1] == [
        f"p.yaml:4:57: gate without a baseline: {NEW_P50}: {NO_BASELINE}",
        "",
    ]


def test_json_has_the_verdicts_and_what_they_block(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "p.yaml").write_text(MEASURED.replace("GATE", f"{UNSURE}, size: {{max_regression: 1%}}") + GUARDED)
    assert main(["p.yaml", "--json"]) == 4
    document = json.loads(capsys.readouterr().out)
    assert document["exit_code"] == 4
    assert [
        (verdict["outcome"], verdict["fails"], verdict.get("blocks", False)) for verdict in document["verdicts"]
    ] == [
        ("undecided", True, True),
        ("no baseline", False, False),
    ]


def test_a_baseline_may_be_accepted_after_undecided(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(project, f"{UNSURE}, size: {{max_regression: 1%}}", GUARDED)
    capsys.readouterr()
    assert main(["baseline", "accept", "p.yaml"]) == 2
    assert capsys.readouterr().err == (
        "error: the last run of p.yaml fails whatever is accepted\n"
        f"  {TITLE} is undecided: {IS_UNDECIDED}\n"
        "  hint: see to these gates, or accept it all the same: orun baseline accept p.yaml --force\n"
    )
    assert main(["baseline", "accept", "p.yaml", "--force"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [f"warning: {TITLE} is undecided all the same: {IS_UNDECIDED}", "commit p.baseline.json"]
    result = orun.run("p.yaml")
    assert [verdict.outcome for verdict in result.verdicts] == ["undecided", "passed"]
    assert (result.exit_code, result["give"].outcome) == (4, "blocked")


def test_a_stage_that_a_run_or_a_plan_does_not_have(project: Path) -> None:
    result = run(project, UNSURE, "")
    for owner, document in ((f"run {result.run}", result), ("the plan of p", orun.plan("p.yaml"))):
        with pytest.raises(KeyError) as caught:
            document["tiem"]
        assert str(caught.value) == f"{owner} has no stage 'tiem'\n  did you mean time?"
        with pytest.raises(KeyError) as caught:
            document["nothing"]
        assert str(caught.value) == f"{owner} has no stage 'nothing'\n  expected make or time"
