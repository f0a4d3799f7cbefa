"""Models of a bundle, and checks of a model and its name that every server needs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from orun.core.dynamic_axes import find_batch_index
from orun.errors import UsageError
from orun.stages._graph.signature import name_axes
from orun.stages.contract import MODEL, Context

if TYPE_CHECKING:
    from onnx import ValueInfoProto

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
LONGEST = 255  # bytes of a folder's name


def require_name(name: str) -> None:
    """Refuse a name that a folder, or a part of an address, cannot have.

    Raises:
        UsageError: if it is refused.
    """
    if not NAME.fullmatch(name) or len(name) > LONGEST:
        why = f"allowed are up to {LONGEST} letters, digits, `_`, `.` and `-`"
        raise UsageError(f"{name!r:.80} is not a valid name for a folder", why=why)


def list_models(context: Context, chosen: str) -> list[str]:
    """Return the folders, in the bundle, of its models, `.` for the first. A chosen one must be among them.

    Raises:
        StageFailed: if the bundle has no such model.
    """
    folders = [".", *sorted(path.parent.name for path in context.inputs["bundle"].glob(f"*/{MODEL}"))]
    if chosen and chosen not in folders:
        has = f"besides its first model it has {', '.join(folders[1:])}" if folders[1:] else "it has one model"
        raise context.failed(f"model: the bundle has no {chosen!r}", why=has)
    return folders


def require_batch(values: Iterable[ValueInfoProto]) -> None:
    """Refuse batches for a model whose first axes are not all dynamic, or whose batch is another axis.

    Raises:
        UsageError: for the first such input or output.
    """
    for value in values:
        axes = name_axes(value)
        if not axes:
            problem = f"{value.name!r} has no axes"
        elif place := find_batch_index(axes):
            problem = f"that of {value.name!r} is axis {place}"
        elif isinstance(axes[0], int):
            problem = f"that of {value.name!r} is always {axes[0]}"
        else:
            continue
        raise UsageError(
            f"`max_batch_size` needs a model whose inputs and outputs all have the batch as first axis; {problem}",
            hint="export it with a dynamic first axis, or set `max_batch_size: 0`",
        )
