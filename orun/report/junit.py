"""JUnit XML: one test case for each stage and each gate, by the schema of Jenkins' xunit plug-in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from orun.core.run_record import RunResult, StageResult
from orun.core.verdict import Verdict
from orun.report import gates
from orun.report.failures import format_portable_failure
from orun.report.notes import describe_undeclared_write
from orun.report.stages import format_reasons
from orun.text.suggestions import show_path

# What XML 1.0 cannot hold: the log of a stage may, and the name of a file.
UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(result: RunResult) -> str:
    """Return the XML document of a run."""
    stages = [_build_stage_case(result, stage) for stage in result.stages]
    judged = [_build_gate_case(result, verdict, name) for verdict, name in gates.name_verdicts(result.verdicts)]
    for stage, gate in gates.iter_unjudged(result):
        message = f"{gates.NOT_JUDGED}: {gates.explain_unjudged(stage)}"
        judged.append(_build_case(f"{result.pipeline}.gates", gate.title, 0.0))
        _add_element(judged[-1], "failure" if gate.fails else "skipped", message, gates.NOT_JUDGED)
    for title in result.not_asked:
        judged.append(_build_case(f"{result.pipeline}.gates", title, 0.0))
        _add_element(judged[-1], "skipped", f"{gates.NOT_ASKED}: its stage is not part of this run", gates.NOT_ASKED)
    root = ET.Element(
        "testsuites",
        {"name": result.pipeline, **_count_outcomes([*stages, *judged]), "time": _format_time(result.seconds)},
    )
    for name, cases, seconds in (("stages", stages, result.seconds), ("gates", judged, 0.0)):
        suite = ET.SubElement(root, "testsuite", _describe_suite(result, name, cases, seconds))
        suite.extend(cases)
    ET.indent(root)
    text = UNWRITABLE.sub("\ufffd", ET.tostring(root, encoding="unicode"))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _describe_suite(result: RunResult, name: str, cases: Sequence[ET.Element], seconds: float) -> dict[str, str]:
    skipped = sum(case.find("skipped") is not None for case in cases)
    return {
        "name": f"{result.pipeline}.{name}",
        **_count_outcomes(cases),
        "skipped": str(skipped),
        "time": _format_time(seconds),
        "timestamp": datetime.fromtimestamp(result.started_at, UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        "file": show_path(result.file),
    }


def _count_outcomes(cases: Sequence[ET.Element]) -> dict[str, str]:
    totals = {"tests": len(cases)}
    totals["failures"] = sum(case.find("failure") is not None for case in cases)
    totals["errors"] = sum(case.find("error") is not None for case in cases)
    return {name: str(total) for name, total in totals.items()}


def _build_stage_case(result: RunResult, stage: StageResult) -> ET.Element:
    seconds = stage.seconds if stage.outcome in ("built", "failed") else 0.0
    case = _build_case(f"{result.pipeline}.stages", stage.stage, seconds)
    if stage.failure:
        lines = format_portable_failure(result, stage)
        _add_element(case, "error", stage.failure.problem, stage.failure.error, "\n".join(lines))
    elif stage.outcome in ("blocked", "skipped"):
        _add_element(case, "skipped", f"{stage.outcome}: {format_reasons(stage.reasons, every=True)}", stage.outcome)
    if notes := [*([describe_undeclared_write(result, stage)] if stage.wrote else []), *stage.notes]:
        ET.SubElement(case, "system-out").text = "\n".join(notes)
    return case


def _build_gate_case(result: RunResult, verdict: Verdict, name: str) -> ET.Element:
    sentence = gates.explain_verdict(verdict)
    case = _build_case(f"{result.pipeline}.gates", name, 0.0)
    if verdict.fails:
        _add_element(case, "failure", sentence, verdict.outcome, f"{gates.format_located_title(verdict)}: {sentence}")
    elif verdict.outcome != "passed":  # a member of a group that failed is no failure, and not green either
        _add_element(case, "skipped", f"{verdict.outcome}: {sentence}", verdict.outcome)
    else:
        figure = "" if verdict.measured is None else f"measured {gates.show_measured(verdict)}: "
        caveat = f"; {gates.format_caveat(verdict)}" if verdict.caveats else ""
        ET.SubElement(case, "system-out").text = f"{figure}{sentence}{caveat}"
    return case


def _build_case(suite: str, name: str, seconds: float) -> ET.Element:
    return ET.Element("testcase", {"classname": suite, "name": name, "time": _format_time(seconds)})


def _add_element(case: ET.Element, tag: str, message: str, sort: str, text: str = "") -> None:
    ET.SubElement(case, tag, {"message": message, "type": sort}).text = text or None


def _format_time(seconds: float) -> str:
    return f"{seconds:.3f}"
