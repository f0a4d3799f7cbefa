"""Reader of what earlier versions of orun stored: facts that were sentences then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import Components, KeyComponent
from orun.core.reason_codes import ReasonCode
from orun.core.serialization import encode

# How the names of components began, and what each is now.
NAMED: Mapping[str, ComponentKind] = {
    "parameter ": ComponentKind.PARAMETER,
    "file of ": ComponentKind.CODE_FILE,
    "input ": ComponentKind.INPUT,
    "content of ": ComponentKind.CONTENT,
    "environment ": ComponentKind.VARIABLE,
    "tool ": ComponentKind.TOOL,
    "package ": ComponentKind.PACKAGE,
    "device ": ComponentKind.DEVICE,
    "history of ": ComponentKind.PROVENANCE,
    "verdicts of ": ComponentKind.VERDICTS,
    "read ": ComponentKind.READ,
    "listed ": ComponentKind.LISTED,
    "imported ": ComponentKind.IMPORTED,
    "looked up ": ComponentKind.LOOKED_UP,
    "looked for ": ComponentKind.LOOKED_FOR,
}
WHOLE: Mapping[str, ComponentKind] = {
    "kind": ComponentKind.KIND,
    "stage code": ComponentKind.STAGE_CODE,
    "python of your code": ComponentKind.PYTHON,
    "encoding of texts": ComponentKind.ENCODING,
    "modules from": ComponentKind.MODULE_FOLDERS,
    "startup code": ComponentKind.STARTUP,
    "target": ComponentKind.TARGET,
    "seed": ComponentKind.SEED,
    "pipeline": ComponentKind.PIPELINE,
    "history": ComponentKind.HISTORY,
}
NEVER_RUN = "never run before"
OWNED = (ComponentKind.PACKAGE, ComponentKind.DEVICE)


def components_of(named: Mapping[str, str]) -> Components:
    """Return the components that were stored under English names: `parameter opset`, `device cpu of target`."""
    return tuple(_component(name, value) for name, value in named.items())


def upgraded_run(record: Any) -> Any:
    """Return the plain data of a run, as this version writes it."""
    if not isinstance(record, dict):
        return record
    return record | {
        "stages": [upgraded_stage(stage) for stage in record.get("stages", ())],
        "verdicts": [upgraded_verdict(verdict) for verdict in record.get("verdicts", ())],
    }


def upgraded_event(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the line of an event log of version 1, as this version writes it."""
    upgraded = dict(line)
    if "reasons" in line:
        upgraded["reasons"] = _reasons(line["reasons"])
    if "result" in line:
        upgraded["result"] = upgraded_stage(line["result"])
    if "verdict" in line:
        upgraded["verdict"] = upgraded_verdict(line["verdict"])
    return upgraded


def upgraded_stage(stage: Any) -> Any:
    """Return the plain data of a stage's result, as this version writes it."""
    if not isinstance(stage, dict):
        return stage
    upgraded = dict(stage)
    if isinstance(stage.get("inputs"), dict):
        upgraded["inputs"] = encode(components_of(stage["inputs"]))
    if "reasons" in stage:
        upgraded["reasons"] = _reasons(stage["reasons"])
    return upgraded


def upgraded_verdict(verdict: Any) -> Any:
    """Return the plain data of a verdict, as this version writes it."""
    if not isinstance(verdict, dict) or "why" not in verdict:
        return verdict
    upgraded = {name: value for name, value in verdict.items() if name not in ("why", "caveat")}
    caveat = verdict.get("caveat")
    return upgraded | {"finding": _recorded(verdict["why"]), **({"caveats": [_recorded(caveat)]} if caveat else {})}


def _reasons(reasons: Iterable[Any]) -> list[Any]:
    return [_recorded(item) if isinstance(item, str) else item for item in reasons]


def _recorded(text: str) -> dict[str, Any]:
    """Return the reason for a sentence that an earlier version stored."""
    code = ReasonCode.NEVER_RUN if text == NEVER_RUN else ReasonCode.RECORDED
    return {"code": code.value} if code == ReasonCode.NEVER_RUN else {"code": code.value, "arguments": {"text": text}}


def _component(name: str, value: str) -> KeyComponent:
    if name in WHOLE:
        return KeyComponent(WHOLE[name], value=value)
    start = _start(name, NAMED)
    if start is None:
        return KeyComponent(ComponentKind.TARGET, owner=name, value=value)  # a further target, by its parameter
    kind, subject = NAMED[start], name.removeprefix(start)
    owner = ""
    if kind in OWNED and " of " in subject:
        subject, _, owner = subject.rpartition(" of ")
    return KeyComponent(kind, subject, owner, value)


def _start(name: str, starts: Iterable[str]) -> str | None:
    return next((start for start in starts if name.startswith(start)), None)
