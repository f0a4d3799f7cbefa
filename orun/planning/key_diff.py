"""Differences between two keys of a stage, as reasons."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from orun.core.component_kinds import SEEN, ComponentKind
from orun.core.key_component import Components, find_value
from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import CHANGED, ReasonCode
from orun.pipeline.model import Stage
from orun.planning.cache_key import OWN
from orun.planning.implicit_deps import build_change

Identity = tuple[str, str, str]

OF_A_STAGE_BEFORE = (ComponentKind.PROVENANCE, ComponentKind.VERDICTS)
# Codes of changes that come from stages before a stage.
UPSTREAM = frozenset({CHANGED[kind] for kind in (ComponentKind.INPUT, ComponentKind.HISTORY, *OF_A_STAGE_BEFORE)})


def list_key_changes(stage: Stage, then: Components, now: Components) -> list[Reason]:
    """Return what differs between two sets of components of a stage: of its key, and of what it was seen to use."""
    if not then:
        return [build_reason(ReasonCode.NEVER_RUN)]
    old, new = ({item.identity: item.value for item in components} for components in (then, now))
    renamed = set(_list_history(then)) ^ set(_list_history(now))
    differing = [
        identity
        for identity in dict.fromkeys([*new, *old])
        if old.get(identity) != new.get(identity) and not _is_of_renamed(identity, renamed)
    ]
    changes: list[Reason] = []
    kinds = [_name_kind(components) for components in (then, now)]
    if "" not in kinds and kinds[0] != kinds[1]:
        changes.append(build_reason(ReasonCode.KIND_CHANGED, old=kinds[0], new=kinds[1]))
        differing = [item for item in differing if not _follows_from_kind(item, old.get(item), new.get(item))]
    for identity in differing:
        change = _build_change(stage, identity, old.get(identity), new.get(identity))
        if change not in changes:  # two parameters may name one file
            changes.append(change)
    return changes


def _name_kind(components: Components) -> str:
    """Return what `uses` names; empty where the components do not say."""
    kind = find_value(components, ComponentKind.KIND) or ""
    file = find_value(components, ComponentKind.CODE_FILE, OWN)
    return f"{file}:{kind}" if file and kind else kind


def _follows_from_kind(identity: Identity, old: str | None, new: str | None) -> bool:
    """Return whether a component differs because another kind has other parameters, tools and the like."""
    kind, subject, _ = identity
    if kind in (ComponentKind.KIND, ComponentKind.STAGE_CODE, ComponentKind.CODE_FILE):
        return True
    if kind == ComponentKind.CONTENT and subject == OWN:
        return True
    return None in (old, new) and kind not in (ComponentKind.INPUT, ComponentKind.VARIABLE)


def _is_of_renamed(identity: Identity, renamed: Collection[str]) -> bool:
    """Return whether the history says it already: the stage is new in it, or no longer there."""
    return identity[0] in OF_A_STAGE_BEFORE and identity[1] in renamed


def _list_history(components: Components) -> list[str]:
    """Return the names of the stages that led to the stage."""
    text = find_value(components, ComponentKind.HISTORY)
    return json.loads(text) if text else []


def _build_change(stage: Stage, identity: Identity, old: str | None, new: str | None) -> Reason:
    kind, subject, owner = identity
    if kind in SEEN:
        return build_change(kind, subject, old, new)
    values: dict[str, Any] = {"old": old, "new": new}
    if kind == ComponentKind.HISTORY:
        then, now = (json.loads(text) if text else [] for text in (old, new))
        values = {
            "without": [name for name in then if name not in now],
            "with": [name for name in now if name not in then],
        }
    elif kind == ComponentKind.CONTENT:
        path = next((item.path for item in stage.references if item.parameter == subject), "")
        subject = Path(path).as_posix() if path else subject
    elif kind == ComponentKind.INPUT:
        values["stage"] = stage.needs.get(subject)
    elif kind == ComponentKind.STAGE_CODE:
        values["uses"] = stage.uses
    if kind not in CHANGED:  # of a later version of orun
        return build_reason(
            ReasonCode.COMPONENT_CHANGED, kind=kind, subject=subject or None, owner=owner or None, **values
        )
    return build_reason(CHANGED[kind], subject=subject or None, owner=owner or None, **values)
