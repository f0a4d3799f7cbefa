"""Checks of a model and its name that every server needs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from orun.errors import UsageError
from orun.stages._graph.signature import axes_of

if TYPE_CHECKING:
    from onnx import ValueInfoProto

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
LONGEST = 255  # bytes of a folder's name


def require_name(name: str) -> None:
    """Refuse a name that is none for a folder or a part of an address.

    Raises:
        UsageError: if it is refused.
    """
    if not NAME.fullmatch(name) or len(name) > LONGEST:
        why = f"allowed are up to {LONGEST} letters, digits, `_`, `.` and `-`"
        raise UsageError(f"{name!r:.80} is not a valid name for a folder", why=why)


def require_batch(values: Iterable[ValueInfoProto]) -> None:
    """Refuse batches for a model whose first axes are not all dynamic.

    Raises:
        UsageError: if an input or output has a fixed first axis, or no axis.
    """
    for value in values:
        axes = axes_of(value)
        if not axes or isinstance(axes[0], int):
            raise UsageError(
                "`max_batch_size` needs a model whose inputs and outputs all have the batch as first axis; "
                + (f"that of {value.name!r} is always {axes[0]}" if axes else f"{value.name!r} has no axes"),
                hint="export it with a dynamic first axis, or set `max_batch_size: 0`",
            )
