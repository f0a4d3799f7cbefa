"""Reports that GitLab shows in a merge request, besides JUnit: Code Quality and metrics.

https://docs.gitlab.com/ci/testing/code_quality/ and https://docs.gitlab.com/ci/testing/metrics_reports/
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any

from orun.core.open_gates import list_open_gates
from orun.core.run_record import RunResult
from orun.core.source_location import Position
from orun.report.figures import find_position
from orun.report.gates import (
    NOT_JUDGED,
    explain_unjudged,
    explain_verdict,
    find_place,
    format_caveat,
    format_title,
    iter_unjudged,
    list_caveats,
    name_verdicts,
)
from orun.report.notes import describe_undeclared_write
from orun.text.positions import to_repository_path

ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def render_code_quality(result: RunResult) -> str:
    """Return failures, undecided and unjudged gates, undeclared writes and caveats of a run, for Code Quality.

    It is a JSON list, empty when all is well.
    """
    issues = [
        *_iter_stages(result),
        *_iter_gates(result),
        *_iter_undeclared_writes(result),
        *_iter_notes(result),
        *_iter_caveats(result),
    ]
    issues += _iter_unjudged(result)
    return json.dumps(issues, indent=2, ensure_ascii=False) + "\n"


def render_metrics(result: RunResult) -> str:
    """Return every metric of a run as OpenMetrics text. GitLab compares it with the text of the target branch."""
    lines = ["# TYPE orun_metric gauge"]
    for stage in result.stages:
        for name, metric in sorted(stage.metrics.items()):
            labels = {"pipeline": result.pipeline, "stage": stage.stage, "metric": name, "unit": metric.unit}
            label_text = ",".join(f'{label}="{value.translate(ESCAPES)}"' for label, value in labels.items() if value)
            lines.append(f"orun_metric{{{label_text}}} {_format_number(metric.value)}")
    return "\n".join([*lines, "# EOF", ""])


def _format_number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else f"{'+' if value > 0 else '-'}Inf"


def _iter_stages(result: RunResult) -> Iterator[dict[str, Any]]:
    for stage in result.stages:
        if stage.failure:
            text = f"stage {stage.stage} failed: {stage.failure.problem}"
            yield _build_issue(text, "stage", stage.stage, "blocker", find_position(stage, result))


def _iter_gates(result: RunResult) -> Iterator[dict[str, Any]]:
    unsolved = list_open_gates(result.verdicts)
    for verdict, name in name_verdicts(result.verdicts):
        if verdict in unsolved:
            severity = "critical" if verdict.fails else "info" if verdict.outcome == "no baseline" else "minor"
            yield _build_issue(
                f"{format_title(verdict)}: {explain_verdict(verdict)}",
                "gate",
                name,
                severity,
                find_place(verdict, result),
            )


def _iter_undeclared_writes(result: RunResult) -> Iterator[dict[str, Any]]:
    for stage in result.stages:
        if stage.wrote:
            yield _build_issue(
                describe_undeclared_write(result, stage),
                "undeclared-write",
                stage.stage,
                "minor",
                find_position(stage, result),
            )


def _iter_notes(result: RunResult) -> Iterator[dict[str, Any]]:
    for stage in result.stages:
        for note in stage.notes:
            yield _build_issue(f"{stage.stage}: {note}", "note", stage.stage, "info", find_position(stage, result))


def _iter_caveats(result: RunResult) -> Iterator[dict[str, Any]]:
    for verdict in list_caveats(result):
        text = f"{verdict.stage}: {format_caveat(verdict)}"
        yield _build_issue(text, "caveat", verdict.stage, "info", find_place(verdict, result))


def _iter_unjudged(result: RunResult) -> Iterator[dict[str, Any]]:
    for stage, gate in iter_unjudged(result):
        text = f"gate {NOT_JUDGED}: {gate.title}: {explain_unjudged(stage)}"
        yield _build_issue(text, "gate", gate.title, "critical" if gate.fails else "info", find_place(gate, result))


def _build_issue(text: str, check: str, name: str, severity: str, place: Position) -> dict[str, Any]:
    path = to_repository_path(place.file, "CI_PROJECT_DIR")
    # The same failure of the next run is the same issue, wherever it has moved to in the file.
    fingerprint = hashlib.sha256(f"{path}\n{check}\n{name}".encode(errors="surrogateescape")).hexdigest()
    return {
        "description": text,
        "check_name": f"orun/{check}",
        "fingerprint": fingerprint,
        "severity": severity,
        "location": {"path": path, "lines": {"begin": place.line}},
    }
