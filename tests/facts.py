"""Facts in the words that people read: for tests that assert them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orun.core.earlier_records import components_of
from orun.core.key_component import Components, KeyComponent
from orun.core.reason import Reason, reason
from orun.core.reason_codes import ReasonCode
from orun.report.gates import caveat, why
from orun.text.wording.components import by_name
from orun.text.wording.reasons import sentences

__all__ = ["caveat", "components", "named", "said", "sentences", "why"]


def components(named: Mapping[str, str]) -> Components:
    """Key components from names as people read them: `parameter opset`."""
    return components_of(named)


def named(found: Iterable[KeyComponent]) -> dict[str, str]:
    """The value of each key component by its name."""
    return by_name(found)


def said(*texts: str) -> tuple[Reason, ...]:
    """Reasons with these sentences, for tests of what shows them."""
    return tuple(reason(ReasonCode.RECORDED, text=text) for text in texts)
