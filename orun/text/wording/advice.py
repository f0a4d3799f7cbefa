"""Sentences for what would decide an undecided gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orun.core.reason import Reason
from orun.core.reason_codes import ReasonCode
from orun.text.wording.reasons import fill


def format_advice(reasons: tuple[Reason, ...]) -> str:
    """Return the advice among reasons, with the mark before it; empty if there is none."""
    return "".join(RENDERERS[reason.code](reason) for reason in reasons if reason.code in RENDERERS)


def _describe_disturbance(reason: Reason) -> str:
    """Say why times are no evidence, and the ways on: the only place that names them.

    Without `intra_op_num_threads` a session has a thread for each core, so any other process makes one of them wait.
    A single thread has a core, but not always all of it.
    """
    launches, total = reason.arguments["launches"], reason.arguments["of"]
    if reason.arguments.get("shared"):
        return (
            f": another process or virtual machine used the same core in {launches} of {total} launches: measure again "
            "with --fresh when it has ended, measure on another machine, or set `undecided: allow` in the gate"
        )
    return (
        f": threads waited for a core in {launches} of {total} launches: set `session: {{intra_op_num_threads: 1}}` in "
        "the target, measure on a quieter machine, or set `undecided: allow` in the gate"
    )


def _raise_parameters(reason: Reason) -> str:
    return f": raise {' and '.join(f'`{name}`' for name in reason.arguments['names'])}"


def _describe_time_used_up(reason: Reason) -> str:
    resolution = reason.arguments.get("resolution")
    settings = [f"`resolution: {resolution}`"] if resolution else []
    settings += ["a longer `time`", *(["more `max_launches`"] if reason.arguments.get("max_launches") else [])]
    return f": its time was used up: set {' and '.join(settings)}"


def _suggest_more_launches(reason: Reason) -> str:
    parameter, number = reason.arguments["parameter"], reason.arguments["number"]
    limit = f" and `max_launches: {number}`" if reason.arguments.get("max_launches") else ""
    return f": about {number} {_name_unit(reason)} would decide it: set `{parameter}: {number}`{limit}"


def _describe_too_many_launches(reason: Reason) -> str:
    most = reason.arguments["most"]
    return (
        f": over {most} {_name_unit(reason)} would decide it: choose another threshold, or measure where less disturbs"
    )


def _name_unit(reason: Reason) -> str:
    return "rounds" if reason.arguments["parameter"] == "rounds" else "launches"


RENDERERS: Mapping[str, Callable[[Reason], str]] = {
    ReasonCode.DISTURBED: _describe_disturbance,
    ReasonCode.TOO_NEAR: fill(": it is too near for this stage: choose another threshold"),
    ReasonCode.MEASURE_AGAIN: fill(": measure again with --fresh"),
    ReasonCode.RAISE_PARAMETERS: _raise_parameters,
    ReasonCode.SET_RESOLUTION: fill(": set `resolution: {resolution}`, and launches go on until they decide it"),
    ReasonCode.TIME_USED_UP: _describe_time_used_up,
    ReasonCode.MORE_LAUNCHES: _suggest_more_launches,
    ReasonCode.TOO_MANY_LAUNCHES: _describe_too_many_launches,
    ReasonCode.MORE_EXAMPLES: fill("; about {number} more examples would decide it"),
    ReasonCode.TOO_MANY_EXAMPLES: fill(
        "; over {times} times as many examples would decide it: choose another threshold"
    ),
    ReasonCode.NARROWER_INTERVALS: lambda reason: (
        f"; intervals {float(reason.arguments['times']):.2g} times as narrow would decide it"
    ),
}
