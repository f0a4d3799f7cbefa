"""Names of key components for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import KeyComponent

NAMES: Mapping[str, str] = {
    ComponentKind.KIND: "kind",
    ComponentKind.STAGE_CODE: "stage code",
    ComponentKind.PARAMETER: "parameter {subject}",
    ComponentKind.CODE_FILE: "file of {subject}",
    ComponentKind.INPUT: "input {subject}",
    ComponentKind.CONTENT: "content of {subject}",
    ComponentKind.VARIABLE: "environment {subject}",
    ComponentKind.PYTHON: "python of your code",
    ComponentKind.ENCODING: "encoding of texts",
    ComponentKind.MODULE_FOLDERS: "modules from",
    ComponentKind.STARTUP: "startup code",
    ComponentKind.TOOL: "tool {subject}",
    ComponentKind.PACKAGE: "package {subject}",
    ComponentKind.TARGET: "target",
    ComponentKind.DEVICE: "device {subject}",
    ComponentKind.SEED: "seed",
    ComponentKind.PIPELINE: "pipeline",
    ComponentKind.HISTORY: "history",
    ComponentKind.PROVENANCE: "history of {subject}",
    ComponentKind.VERDICTS: "verdicts of {subject}",
    ComponentKind.READ: "read {subject}",
    ComponentKind.LISTED: "listed {subject}",
    ComponentKind.IMPORTED: "imported {subject}",
    ComponentKind.LOOKED_UP: "looked up {subject}",
    ComponentKind.LOOKED_FOR: "looked for {subject}",
    ComponentKind.SOFTWARE: "{subject}",
}


def name_component(kind: str, subject: str = "", owner: str = "") -> str:
    """Return what a component is called: `parameter opset`, `device cpu of reference_target`."""
    if kind == ComponentKind.TARGET:
        return owner or NAMES[kind]
    name = NAMES[kind].format(subject=subject) if kind in NAMES else f"{kind} {subject}"  # of a later version
    return f"{name} of {owner}" if owner else name


def index_by_name(components: Iterable[KeyComponent]) -> dict[str, str]:
    """Return the value of each component by its name."""
    return {name_component(*item.identity): item.value for item in components}
