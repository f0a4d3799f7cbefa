"""Labels of the user's data that `orun init` assumes, or does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orun.core.serialization import Record


class LabelFacts(Record, frozen=True):
    """Labels of a dataset whose declaration names none."""

    declared: Mapping[str, Any] = {}  # what names them, for its declaration; empty if they are not known
    assumption: str = ""  # what is assumed of them, and why; empty if nothing is
    refusal: str = ""  # why they are not known although the data may have some, with what to do
