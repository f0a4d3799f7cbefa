"""Reason: why a stage runs or not, or what a gate came to, as data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from orun.core.renderers import load_renderer
from orun.core.serialization import Record, field


class Reason(Record, frozen=True):
    """A fact that `orun.text.wording` turns into a sentence.

    Attributes:
        code: what it is; one of `orun.core.reason_codes.ReasonCode`, and documented in docs/reference/reasons.md.
        arguments: names, values and paths that the sentence is about, as plain JSON data.
        because: the reasons behind it.
    """

    code: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    because: tuple[Reason, ...] = ()

    def __str__(self) -> str:
        sentence: str = load_renderer("reason_text")(self)
        return sentence


def build_reason(code: str, *because: Reason, **arguments: Any) -> Reason:
    """Return a reason; arguments that are None are left out, and numbers that JSON has no word for become text."""
    plain = {name: _to_plain(value) for name, value in arguments.items() if value is not None}
    return Reason(code, plain, because)


def _to_plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (tuple, list)):
        return [_to_plain(item) for item in value]
    return value
