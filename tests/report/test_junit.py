"""JUnit XML as CI systems read it."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from orun.core.run_record import Failure, RunResult
from orun.core.serialization import replace
from orun.report.junit import render_junit
from tests.facts import reasons_of

from .support import EXPORT, GATE_FAILED, INT8, PASSED, SLOWER, crashed

# What the schema of Jenkins' xunit plug-in (junit-10.xsd) allows and requires of what we write.
ALLOWED = {
    "testsuites": {"name", "tests", "failures", "errors", "time"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "file"},
    "testcase": {"name", "classname", "time"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
    "skipped": {"message", "type"},
    "system-out": set[str](),
}
REQUIRED = {"testsuite": {"name", "tests", "failures", "errors"}, "testcase": {"name"}}
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testcase"},
    "testcase": {"failure", "error", "skipped", "system-out"},
}


def parsed(result: RunResult) -> ET.Element:
    """The document, after checking it against the schema."""
    root = ET.fromstring(render_junit(result))  # noqa: S314 -- our own document
    for element in root.iter():
        attributes = set(element.attrib)
        assert attributes <= ALLOWED[element.tag]
        assert attributes >= REQUIRED.get(element.tag, set())
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set())
    return root


def test_a_run_whose_gate_failed() -> None:
    assert render_junit(replace(GATE_FAILED, stages=(EXPORT, INT8, GATE_FAILED.stages[-1]))) == (
        """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="bert" tests="7" failures="1" errors="0" time="12.340">
  <testsuite name="bert.stages" tests="3" failures="0" errors="0" skipped="1" time="12.340" \
timestamp="2026-09-21T14:13:20" file="pipelines/bert.yaml">
    <testcase classname="bert.stages" name="export" time="0.000" />
    <testcase classname="bert.stages" name="int8" time="3.250" />
    <testcase classname="bert.stages" name="release" time="0.000">
      <skipped message="blocked: a gate of latency failed" type="blocked" />
    </testcase>
  </testsuite>
  <testsuite name="bert.gates" tests="4" failures="1" errors="0" skipped="1" time="0.000" \
timestamp="2026-09-21T14:13:20" file="pipelines/bert.yaml">
    <testcase classname="bert.gates" name="accuracy cosine.min min 0.97" time="0.000">
      <system-out>measured 0.9812: it is well within</system-out>
    </testcase>
    <testcase classname="bert.gates" name="accuracy recall_at_1 max_drop 1%" time="0.000">
      <skipped message="undecided: the drop is 0.9 % (-0.3 % to 2.1 %), 1% allowed: \
2100 more examples would decide it" type="undecided" />
    </testcase>
    <testcase classname="bert.gates" name="latency p50 max_regression 5%" time="0.000">
      <failure message="8.1 % slower than the accepted baseline (6.2 % to 9.9 %), 5% allowed" type="failed">\
pipelines/bert.yaml:37:7: gate failed: latency p50 max_regression 5%: \
8.1 % slower than the accepted baseline (6.2 % to 9.9 %), 5% allowed</failure>
    </testcase>
    <testcase classname="bert.gates" name="latency speedup min 1.5" time="0.000">
      <system-out>measured 2.15x: it is well within</system-out>
    </testcase>
  </testsuite>
</testsuites>
"""
    )


def test_every_document_keeps_to_the_schema(tmp_path: Path) -> None:
    for result in (PASSED, GATE_FAILED, crashed(tmp_path / "absent.log"), replace(PASSED, stages=(), verdicts=())):
        root = parsed(result)
        suites = root.findall("testsuite")
        assert [suite.get("name") for suite in suites] == ["bert.stages", "bert.gates"]
        for tag, count in (("testcase", "tests"), ("failure", "failures"), ("error", "errors")):
            assert root.get(count) == str(len(list(root.iter(tag))))


def test_a_failed_stage_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "int8.log"
    log.write_text("loading\nSegmentation fault\n")
    error = parsed(crashed(log)).find("testsuite/testcase/error")
    assert error is not None
    assert error.attrib == {"message": "its process died of signal 11 (SIGSEGV)", "type": "StageCrashed"}
    assert error.text == (
        "stage int8 failed: its process died of signal 11 (SIGSEGV)\n"
        "  nothing of it was stored\n"
        "  hint: orun pipelines/bert.yaml --only int8\n"
        f"  log: {log}\n  last 2 lines of its log:\n"
        "  | loading\n"
        "  | Segmentation fault"
    )


def test_what_did_not_run_is_skipped_and_what_came_from_the_store_took_no_time() -> None:
    stages = (
        replace(INT8, outcome="skipped", reasons=reasons_of("target gpu: no CUDAExecutionProvider")),
        replace(INT8, outcome="blocked", reasons=reasons_of("export failed")),
        replace(INT8, outcome="cached"),
    )
    cases = parsed(replace(PASSED, stages=stages, verdicts=())).findall("testsuite/testcase")
    assert [(case.get("time"), [part.attrib for part in case]) for case in cases] == [
        ("0.000", [{"message": "skipped: target gpu: no CUDAExecutionProvider", "type": "skipped"}]),
        ("0.000", [{"message": "blocked: export failed", "type": "blocked"}]),
        ("0.000", []),
    ]


def test_what_xml_cannot_hold_is_replaced() -> None:
    failure = Failure("StageFailed", "bad byte \x00 and \x1b in <name> & \ud800")
    int8 = replace(INT8, outcome="failed", failure=failure)
    error = parsed(replace(PASSED, stages=(int8,), verdicts=())).find("testsuite/testcase/error")
    assert error is not None
    assert error.get("message") == "bad byte \ufffd and \ufffd in <name> & \ufffd"
    wrote = replace(INT8, wrote=("a\x01b", "c\udcff"))
    root = parsed(replace(PASSED, pipeline="odd\x02", file="odd\x02\udcff.yaml", stages=(wrote,), verdicts=()))
    (suite, _) = root.findall("testsuite")
    assert root.get("name") == "odd\ufffd"
    assert suite.get("file") == "odd\ufffd\ufffd.yaml"
    assert (suite.findtext("testcase/system-out") or "").startswith("int8 wrote beside its output: a\ufffdb, c\ufffd; ")


def test_members_of_a_group_are_not_green_when_they_failed_and_have_names_of_their_own() -> None:
    group = replace(
        SLOWER,
        metric="any of 2",
        rule="any",
        threshold="",
        outcome="passed",
        fails=False,
        finding=reasons_of("passed: p50 max 9ms")[0],
    )
    member = replace(SLOWER, fails=False, depth=1)
    cases = parsed(replace(PASSED, verdicts=(SLOWER, group, member))).findall("testsuite/testcase")
    elements = [(case.get("name"), [part.tag for part in case]) for case in cases[len(PASSED.stages) :]]
    assert elements == [
        ("latency p50 max_regression 5%", ["failure"]),
        ("latency any of 2", ["system-out"]),
        ("latency p50 max_regression 5% (2)", ["skipped"]),
    ]
