"""Sentences for the reasons of stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from orun.core.component_kinds import SEEN
from orun.core.reason import Reason
from orun.core.reason_codes import CHANGED, ReasonCode
from orun.core.run_record import Outcome
from orun.text.lists import join_few
from orun.text.wording.components import name_component
from orun.text.wording.values import shorten_value, show_difference

UNSET = "unset"  # value of a variable that counts and is not set
SECRET = "secret"  # noqa: S105 -- value of a variable whose value does not count
VERBS: Mapping[Outcome, str] = {"failed": "failed", "blocked": "did not run", "skipped": "was skipped"}
BLOCKING = {"failed": "failed", "undecided": "is undecided", "no baseline": "has no baseline"}
EVENTS = {"appeared": "has appeared", "gone": "is gone", "changed": "changed"}


def describe_reason(reason: Reason) -> str:
    """Return the sentence of a stage's reason, without a capital and a full stop."""
    render = RENDERERS.get(reason.code)
    return render(reason) if render else " ".join([reason.code, *map(str, reason.arguments.values())])


def describe_reasons(reasons: Iterable[Reason]) -> tuple[str, ...]:
    """Return the sentence of each reason."""
    return tuple(map(describe_reason, reasons))


def _describe_change(reason: Reason) -> str:
    kind = KINDS.get(reason.code) or reason.arguments["kind"]
    name = name_component(kind, reason.arguments.get("subject", ""), reason.arguments.get("owner", ""))
    return show_difference(name, reason.arguments.get("old"), reason.arguments.get("new"))


def _describe_kind(reason: Reason) -> str:
    return show_difference("uses", reason.arguments.get("old"), reason.arguments.get("new"))


def _describe_input(reason: Reason) -> str:
    source = reason.arguments.get("stage")
    return f"input {reason.arguments['subject']} changed" + (f" (from {source})" if source else "")


def _describe_variable(reason: Reason) -> str:
    pair = reason.arguments.get("old"), reason.arguments.get("new")
    events = {(None, UNSET): "counts, and is not set", (UNSET, None): "no longer counts, and was not set"}
    return f"environment variable {reason.arguments['subject']} {events.get(pair, 'changed')}"


def _describe_module_folders(reason: Reason) -> str:
    old, new = shorten_value(reason.arguments.get("old")), shorten_value(reason.arguments.get("new"))
    return f"modules come from other folders: PYTHONPATH was {old}, and is {new}"


def _describe_history(reason: Reason) -> str:
    names = {"without": reason.arguments.get("without", ()), "with": reason.arguments.get("with", ())}
    parts = [f"{word} {join_few(stages)}" for word, stages in names.items() if stages]
    return f"history: {'; '.join(parts)}" if parts else "history is in another order"


def _read(reason: Reason) -> str:
    return f"{reason.arguments['subject']} {EVENTS[reason.arguments['event']]} (read by the stage)"


def _describe_import(reason: Reason) -> str:
    old, new = reason.arguments.get("old"), reason.arguments.get("new")
    return (
        f"package {reason.arguments['subject']}: {shorten_value(old)} -> {shorten_value(new)} (imported by the stage)"
    )


def _describe_lookup(reason: Reason) -> str:
    event = "changed"
    if reason.arguments.get("new") == SECRET:
        event = "is a secret now"
    elif reason.arguments.get("old") == SECRET:
        event = "is no secret any more"
    return f"environment variable {reason.arguments['subject']} {event} (read by the stage)"


def _describe_search(reason: Reason) -> str:
    subject, event = reason.arguments["subject"], reason.arguments["event"]
    if event == "moved":
        return f"{subject} is {reason.arguments['new']} now (used by the stage)"
    return f"{subject} {EVENTS[event]} (looked for by the stage)"


def _describe_wait(reason: Reason) -> str:
    environments = [f"environment {name!r} is made" for name in reason.arguments.get("environments", ())]
    return f"after {', '.join([*reason.arguments.get('stages', ()), *environments])}"


def _describe_up_to_date(reason: Reason) -> str:
    if not (stage := reason.arguments.get("stage")):
        return "up to date"
    pipeline = reason.arguments.get("pipeline")
    return f"up to date (the same as {stage}{f' of {pipeline}' if pipeline else ''})"


def _describe_earlier(reason: Reason) -> str:
    return f"what an earlier run made of these does not hold any more: {'; '.join(describe_reasons(reason.because))}"


def _describe_gate_before(reason: Reason) -> str:
    return f"a gate of {reason.arguments['stage']} {BLOCKING[reason.arguments['outcome']]}"


def _describe_stage_before(reason: Reason) -> str:
    outcome: Outcome = reason.arguments["outcome"]
    return f"{reason.arguments['stage']} {VERBS[outcome]}"


def fill(template: str) -> Callable[[Reason], str]:
    """Return a renderer that fills arguments into a sentence."""
    return lambda reason: template.format_map(reason.arguments)


KINDS: Mapping[str, str] = {code: kind for kind, code in CHANGED.items()}

RENDERERS: Mapping[str, Callable[[Reason], str]] = {
    **dict.fromkeys((code for kind, code in CHANGED.items() if kind not in SEEN), _describe_change),
    ReasonCode.COMPONENT_CHANGED: _describe_change,
    ReasonCode.KIND_CHANGED: _describe_kind,
    ReasonCode.STAGE_CODE_CHANGED: fill("the code of {uses} changed"),
    ReasonCode.INPUT_CHANGED: _describe_input,
    ReasonCode.CONTENT_CHANGED: fill("{subject} changed"),
    ReasonCode.VARIABLE_CHANGED: _describe_variable,
    ReasonCode.MODULE_FOLDERS_CHANGED: _describe_module_folders,
    ReasonCode.HISTORY_CHANGED: _describe_history,
    ReasonCode.PROVENANCE_CHANGED: fill("the history of {subject} changed"),
    ReasonCode.VERDICTS_CHANGED: fill("the verdicts of {subject} changed"),
    ReasonCode.READ_CHANGED: _read,
    ReasonCode.LISTED_CHANGED: fill("folder {subject} has other files now (listed by the stage)"),
    ReasonCode.IMPORTED_CHANGED: _describe_import,
    ReasonCode.LOOKED_UP_CHANGED: _describe_lookup,
    ReasonCode.LOOKED_FOR_CHANGED: _describe_search,
    ReasonCode.NEVER_RUN: fill("never run before"),
    ReasonCode.FORCED: fill("forced"),
    ReasonCode.MEASURED_AGAIN: fill("--fresh: measured again"),
    ReasonCode.RESULT_MISSING: fill("its result is no longer in the store"),
    ReasonCode.RESULT_DAMAGED: fill("its stored result is damaged: {problem}"),
    ReasonCode.EARLIER_RESULT_STALE: _describe_earlier,
    ReasonCode.OTHER_RESULT: fill("the last run has another result of it"),
    ReasonCode.WAITS: _describe_wait,
    ReasonCode.DEVICE_UNKNOWN: fill("{problem}"),
    ReasonCode.NO_MACHINE: fill("{problem}"),
    ReasonCode.UP_TO_DATE: _describe_up_to_date,
    ReasonCode.FETCHED: fill("fetched from the remote"),
    ReasonCode.ON_MACHINE: fill("{machine} had its result"),
    ReasonCode.PROVIDER_MISSING: fill("target {target}: {problem}"),
    ReasonCode.GATE_BEFORE: _describe_gate_before,
    ReasonCode.STAGE_BEFORE: _describe_stage_before,
    ReasonCode.STOPPED: fill("another stage failed, and --keep-going is not set"),
    ReasonCode.NOT_SELECTED: fill("not up to date, and not asked for"),
}
