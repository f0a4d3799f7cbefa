"""The report for browsers: what stands in it, and that every text stays text."""

from __future__ import annotations

from pathlib import Path

import pytest

from orun.core.metrics import Comparison, Estimate
from orun.core.reason import build_reason
from orun.core.reason_codes import ReasonCode
from orun.core.run_record import RunResult, StageResult
from orun.core.serialization import encode, replace
from orun.core.source_location import Position
from orun.core.verdict import Unjudged, Verdict
from orun.report.html.page import render_page
from orun.store.checksummed_json import encode_checksummed
from tests.facts import components, reasons_of
from tests.report.pages import Element, read, titles
from tests.report.support import (
    EXPORT,
    GATE_FAILED,
    INT8,
    LATENCY,
    PASSED,
    RELEASE,
    SLOWER,
    SPEEDUP,
    crashed,
    linked,
)  # fmt: skip


def rows(section: Element) -> list[list[str]]:
    """Text of each cell of the section's first table, folded lines left out."""
    body = section.every("tbody")[0]
    elements = [line for line in body.children if isinstance(line, Element)]
    return [
        [cell.text for cell in line.children if isinstance(cell, Element)]
        for line in elements
        if "below" not in line.attributes.get("class", "")
    ]


def test_a_run_whose_gates_passed() -> None:
    document = read(render_page(linked(PASSED)))
    assert document.only("head").only("title").text == "bert: passed"
    assert document.only("h1").text == "bert"
    assert document.only("p", "verdict").text == (
        "\u2713passed: 5 stages (3 built, 2 cached), 4 gates passed, 12.3 s; results in artifacts/out/bert"
    )
    assert [child.text for child in document.only("header").only("dl").children if isinstance(child, Element)][:4] == [
        "when2026-09-21 14:13:20 UTC", "took12.3 s", "exit code0", "filepipelines/bert.yaml",
    ]  # fmt: skip
    assert titles(document) == ["Release checklist", "Graph", "Stages", "Environment"]
    assert [(element.text, element.attributes["href"]) for element in document.only("nav").every("a")] == [
        ("Release checklist", "#gates"), ("Graph", "#graph"), ("Stages", "#stages"), ("Environment", "#environment"),
    ]  # fmt: skip


@pytest.mark.parametrize("result", [PASSED, GATE_FAILED, linked(PASSED)])
def test_no_markup_is_shown_as_text(result: RunResult) -> None:
    overrides = {"vars.sequence": "64", "stages.int8.with.per_channel": "false"}
    document = read(render_page(replace(result, overrides=overrides, repeats="20260921-1")))
    (term,) = (
        element for element in document.only("header").only("dl").every("div") if element.only("dt").text == "set"
    )
    assert term.only("dd").text == "vars.sequence=64 stages.int8.with.per_channel=false "
    assert [element.text for element in term.every("code")] == [
        "vars.sequence=64",
        "stages.int8.with.per_channel=false",
    ]
    assert "<" not in document.only("body").text


def test_the_checklist_shows_what_was_measured_and_why_a_gate_did_not_pass() -> None:
    document = read(render_page(GATE_FAILED))
    assert [line[:5] for line in rows(document.at("gates"))] == [
        ["\u2713passed", "accuracy cosine.min", "min 0.97", "0.9812", ""],
        ["?undecided", "accuracy recall_at_1", "max_drop 1%", "0.9 % drop", "-0.3 % to 2.1 %"],
        ["\u2717failed", "latency p50", "max_regression 5%", "8.1 % worse", "6.2 % to 9.9 %"],
        ["\u2713passed", "latency speedup", "min 1.5", "2.15x", "2.11x to 2.20x"],
    ]
    passed, unsure, failed, _ = document.at("gates").every("tr", "below")
    assert passed.only("summary").text == "how it was judged"
    assert unsure.only("p", "why").text == (
        "the drop is 0.9 % (-0.3 % to 2.1 %), 1% allowed: 2100 more examples would decide it (pipelines/bert.yaml:32:7)"
    )
    assert not unsure.every("p", "hint")
    assert failed.only("p", "hint").text == (
        "hint: if the change is meant, accept it as the new baseline: "
        "orun pipelines/bert.yaml; orun baseline accept pipelines/bert.yaml"
    )
    assert [command.text for command in failed.only("p", "hint").every("code")] == [
        "orun pipelines/bert.yaml; orun baseline accept pipelines/bert.yaml"
    ]
    assert [(element.text, element.attributes["href"]) for element in document.only("ul", "failing").every("a")] == [
        ("latency p50 max_regression 5%", "#gate-3")
    ]


def test_each_command_of_a_hint_is_code() -> None:
    stored = build_reason(ReasonCode.STORED_FIGURES, build_reason(ReasonCode.MODEL_MISSING), noise="timing")
    unsure = replace(SLOWER, outcome="undecided", finding=replace(SLOWER.finding, because=(stored,)))
    document = read(render_page(replace(PASSED, exit_code=4, verdicts=(unsure,))))
    assert [command.text for command in document.at("gates").only("p", "hint").every("code")] == [
        "orun pipelines/bert.yaml --remote URL",
        "orun pipelines/bert.yaml; orun baseline accept pipelines/bert.yaml",
    ]


def test_an_undecided_gate_that_fails_the_run_says_so() -> None:
    unsure = replace(GATE_FAILED.verdicts[1], fails=True)
    document = read(render_page(replace(PASSED, exit_code=4, verdicts=(unsure,))))
    assert rows(document.at("gates"))[0][0] == "?undecided (fails the run)"
    assert document.only("p", "verdict").text.startswith("?undecided: ")


def test_what_a_gate_was_compared_with_is_told() -> None:
    ratio, difference = Estimate(1.081, 1.062, 1.099), Estimate(0.0006, 0.0004, 0.0008)
    baseline = Comparison(0.00744, ratio, difference, "interleaved, 12 launches of each", 12)
    slow = replace(LATENCY.metrics["p50"], baseline=baseline)
    inputs = {
        "device cpu": "EPYC",
        "device cores": "2",
        "device host": "builder",
        "target": '{"providers":[["CPUExecutionProvider",{}]],"session":{"intra_op_num_threads":2}}',
    }
    latency = replace(LATENCY, metrics={"p50": slow}, inputs=components(inputs))
    document = read(render_page(replace(PASSED, exit_code=1, stages=(latency,), verdicts=(SLOWER,))))
    terms = {
        element.only("dt").text: element.only("dd").text for element in document.at("gates").only("dl").every("div")
    }
    assert terms == {
        "p50": "8.04 ms (8.01 ms to 8.12 ms)",
        "the accepted baseline": "7.44 ms; 1.08x of it (1.06x to 1.10x); interleaved, 12 launches of each",
        "measured": "2026-09-21 10:43:20 UTC",
        "on": "builder, EPYC, 2 cores, CPUExecutionProvider, intra_op_num_threads 2",
    }


def test_members_of_a_group_are_set_in() -> None:
    place = Position("pipelines/bert.yaml", 39, 7)
    group = Verdict(
        "latency", "any of 2", "any", "", "passed", False, None, "", None, reasons_of("passed: speedup")[0], place
    )
    inner = [replace(SLOWER, fails=False, depth=1), replace(SPEEDUP, depth=2)]
    document = read(render_page(replace(PASSED, verdicts=(group, *inner))))
    names = [line.every("th")[0] for line in document.at("gates").every("tr", "gate")]
    assert [(name.text, name.attributes["class"]) for name in names] == [
        ("latency any of 2", "depth-0"), ("latency p50", "depth-1"), ("latency speedup", "depth-2"),
    ]  # fmt: skip
    assert rows(document.at("gates"))[1][0] == "\u2717failed"
    assert not document.every("ul", "failing")
    assert "pill doubt" in render_page(replace(PASSED, verdicts=(group, *inner)))


def test_gates_that_were_not_judged_are_on_the_list() -> None:
    left = Unjudged("latency", "p50", "max", "12ms", Position("pipelines/bert.yaml", 44, 7))
    skipped = StageResult("latency", "measure/latency", "skipped", reasons_of("no GPU here"), unjudged=(left,))
    document = read(render_page(replace(PASSED, stages=(skipped,), verdicts=())))
    assert rows(document.at("gates")) == [["?not judged", "latency p50", "max 12ms", "", "", ""]]
    assert document.at("gates").only("tr", "below").text == (
        "latency was skipped: no GPU here (pipelines/bert.yaml:44:7)"
    )


def test_a_gate_that_fails_a_strict_run_because_it_was_not_judged_says_so() -> None:
    left = Unjudged("latency", "p50", "max", "12ms", Position("pipelines/bert.yaml", 44, 7), fails=True)
    skipped = StageResult("latency", "measure/latency", "skipped", reasons_of("no GPU here"), unjudged=(left,))
    document = read(render_page(replace(PASSED, exit_code=4, stages=(skipped,), verdicts=())))
    assert rows(document.at("gates"))[0][0] == "?not judged (fails the run)"
    assert document.only("ul", "failing").only("a").attributes["href"] == "#unjudged-1"


def test_a_caveat_stands_beside_its_gate() -> None:
    limited = replace(SPEEDUP, caveats=reasons_of("since the baseline `onnxruntime` changed"))
    document = read(render_page(replace(PASSED, verdicts=(limited,))))
    assert document.at("gates").only("tr", "below").every("p")[-1].text == (
        "notice since the baseline onnxruntime changed"
    )


def test_the_table_of_stages_says_what_the_console_says() -> None:
    document = read(render_page(linked(GATE_FAILED)))
    assert rows(document.at("stages")) == [
        ["export", "cached", "", "90.4 MB", ""],
        ["int8", "\u2713built: parameter per_channel: false -> true (and 1 more)", "3.25 s", "22.9 MB", "nodes 311"],
        ["accuracy", "\u2713built: input model changed (from int8)", "6.5 s", "1.2 kB",
         "cosine.min 0.9812, recall_at_1 91.3 %, cosine.mean 0.9931"],
        ["latency", "cached, measured 3 hours ago", "", "3.4 kB", "p50 8.04 ms, speedup 2.15x"],
        ["release", "?blocked: a gate of latency failed", "", "", ""],
    ]  # fmt: skip


def test_what_is_known_of_a_stage_is_folded_below_it() -> None:
    inputs = {
        "parameter per_channel": "true", "parameter exclude": "[]", "input model": "1" * 64, "tool onnx": "onnx 1.23.2",
        "device cpu": "EPYC", "read helper.py": "2" * 64, "read gone.py": "", "imported numpy": "2.4.6",
    }  # fmt: skip
    known = replace(
        INT8, inputs=components(inputs), wrote=("notes.txt",), position=Position("pipelines/bert.yaml", 20, 3)
    )
    document = read(render_page(linked(replace(PASSED, stages=(EXPORT, known, RELEASE)))))
    details = document.at("stages").every("tr", "below")[1]
    assert details.only("summary").text == "quantize/dynamic"
    facts = {
        child.only("dt").text: child.only("dd").text
        for child in details.every("dl")[0].children
        if isinstance(child, Element)
    }
    assert facts == {
        "reasons": "parameter per_channel: false -> truestage code changed",
        "in the file": "pipelines/bert.yaml:20:3",
        "needs": "export",
        "needed by": "release",
        "built": "2026-09-21 14:13:20 UTC, in 3.25 s",
        "key": "a" * 64,
        "artifact": "2" * 64,
        "folder": "artifacts/out/bert/int8",
        "wrote beside its output": "notes.txt",
    }
    groups = [element.text for element in details.every("p", "group")]
    assert groups == ["parameters", "inputs", "tools", "device", "files read", "packages imported"]
    assert [element.text for element in details.every("dl")[1:]] == [
        "per_channeltrue", "model111111111111", "onnxonnx 1.23.2", "cpuEPYC", "helper.py222222222222", "numpy2.4.6",
    ]  # fmt: skip
    assert [element.text for element in document.at("environment").every("tr")][1:] == ["onnx 1.23.2int8"]


def test_a_run_that_repeats_another_tells_what_that_one_knew(tmp_path: Path) -> None:
    known = replace(INT8, inputs=components({"tool onnx": "onnx 1.23.2"}))
    first = replace(PASSED, run="1", stages=(known,), verdicts=(), commit="c" * 40, orun="0.1.0", edited=("bert.yaml",))
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "record.json").write_bytes(encode_checksummed(encode(first)))
    again = replace(first, run="2", repeats="1", stages=(INT8,), folder=tmp_path / "2", commit="", orun="", edited=None)
    text = render_page(again)
    document = read(text)
    facts = document.only("header").only("dl").text
    assert "commitcccccccccccc, edited: bert.yaml" in facts
    assert "repeats1, whose results it found unchanged at a glance" in facts
    assert "onnx 1.23.2" in document.at("environment").text
    (tmp_path / "1" / "record.json").unlink()
    assert "onnx 1.23.2" not in render_page(again)


@pytest.mark.parametrize(
    ("edited", "expected"),
    [
        ((), "no file edited"),
        (None, "whether files were edited is not known"),
        (("a b.py",), "edited: 'a b.py'"),
        (tuple("abcdefg"), "edited: a, b, c, d, e and 2 more"),
    ],
)
def test_the_commit_says_whether_it_is_the_whole_truth(edited: tuple[str, ...] | None, expected: str) -> None:
    document = read(render_page(replace(PASSED, commit="d" * 40, edited=edited)))
    assert f"commitdddddddddddd, {expected}" in document.only("header").only("dl").text


def test_a_failed_stage_shows_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "int8.log"
    log.write_text("</pre><script>alert(1)</script>\n\x1b[31mSegmentation fault\x1b[0m\n")
    document = read(render_page(crashed(log)))
    block = document.at("failures")
    assert block.only("p", "why").text == "\u2717failed int8: its process died of signal 11 (SIGSEGV)"
    assert block.only("pre").text == (
        f"  nothing of it was stored\n  hint: orun pipelines/bert.yaml --only int8\n  log: {log}\n"
        "  last 2 lines of its log:\n  | </pre><script>alert(1)</script>\n  | Segmentation fault"
    )
    assert titles(document)[0] == "Failed stages"


def test_a_run_of_nothing() -> None:
    document = read(render_page(replace(PASSED, stages=(), verdicts=(), host={})))
    assert titles(document) == []
    assert document.only("p", "verdict").text == "done: 0 stages, no gates, 12.3 s"
