"""Gates of a run that did not pass."""

from __future__ import annotations

from collections.abc import Sequence

from orun.core.verdict import Verdict


def list_open_gates(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the gates that did not pass; none of a group that passed, whatever its members did."""
    open_verdicts: list[Verdict] = []
    passed_at: int | None = None  # depth of the group that passed and that the verdict is in
    for verdict in verdicts:
        if passed_at is not None and verdict.depth > passed_at:
            continue
        passed_at = verdict.depth if verdict.outcome == "passed" else None
        if verdict.outcome != "passed":
            open_verdicts.append(verdict)
    return open_verdicts


def list_failed_gates(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the open gates that failed."""
    return [verdict for verdict in list_open_gates(verdicts) if verdict.outcome == "failed"]
