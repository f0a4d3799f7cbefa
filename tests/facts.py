"""Facts in the words that people read: for tests that assert them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orun.core.component_kinds import ComponentKind
from orun.core.key_component import Components, KeyComponent
from orun.core.reason import Reason, build_reason
from orun.core.reason_codes import ReasonCode
from orun.report.gates import explain_verdict, format_caveat
from orun.text.wording.components import NAMES, index_by_name
from orun.text.wording.reasons import describe_reasons

__all__ = ["components", "describe_reasons", "explain_verdict", "format_caveat", "named", "reasons_of"]

OWNED = (ComponentKind.PACKAGE, ComponentKind.DEVICE)


def components(named: Mapping[str, str]) -> Components:
    """Key components from names as people read them: `parameter opset`, `device cpu of reference_target`."""
    return tuple(_component(name, value) for name, value in named.items())


def _component(name: str, value: str) -> KeyComponent:
    for kind, template in NAMES.items():
        start, separator, _ = template.partition("{subject}")
        if name == template:
            return KeyComponent(ComponentKind(kind), value=value)
        if start and separator and name.startswith(start):
            subject, _, owner = name.removeprefix(start).partition(" of " if kind in OWNED else "\n")
            return KeyComponent(ComponentKind(kind), subject, owner, value)
    return KeyComponent(ComponentKind.TARGET, owner=name, value=value)  # a further target, by its parameter


def named(components: Iterable[KeyComponent]) -> dict[str, str]:
    """The value of each key component by its name."""
    return index_by_name(components)


def reasons_of(*texts: str) -> tuple[Reason, ...]:
    """Reasons with these sentences, for tests of what shows them."""
    return tuple(build_reason(ReasonCode.NO_MACHINE, problem=text) for text in texts)
