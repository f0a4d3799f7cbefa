"""Sizes of an example that an export keeps as constants, such as the number of rounds of a loop over an axis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from warnings import WarningMessage

from orun.stages._graph.feeds import Input
from orun.stages._torch.export import Bound
from orun.stages._torch.value_branches import describe_line, is_own, list_traced_lines
from orun.stages.code import inspect_signature
from orun.stages.contract import Context

STATIC = re.compile(r"inferred a static shape of (\d+) for dimension inputs\['(\w+)'\](?:\[(\d+)\])?\.shape\[(\d+)\]")
LISTED = 3  # lines in a hint
REMEDY = "compute with tensors, or declare the axis with its size"


@contextmanager
def naming_fixed_axis(context: Context, bound: Bound, problem: str, other: str) -> Iterator[None]:
    """Turn the dynamo exporter's message on a dynamic axis that the module fixes into an error that names the axis.

    Raises:
        StageFailed: when the module fixes an axis.
    """
    try:
        yield
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if (fixed := STATIC.search(str(cause))) is None:
            raise
        size, parameter, element, place = fixed.groups()
        item = _find_input(bound, parameter, int(element or 0))
        fixed_axis = f"axis {place} of {item.name!r} at its size in the example, {size}"
        axes = [*item.shape]
        axis, axes[int(place)] = axes[int(place)], int(size)
        raise context.failed(
            problem,
            why=f"forward fixes {fixed_axis}, as a loop over it does\n`inputs` declares that axis as dynamic: {axis}",
            hint=f"{REMEDY}, such as `{item.name}: {{shape: [{', '.join(map(str, axes))}]}}`; or {other}",
        ) from error


def _find_input(bound: Bound, parameter: str, element: int) -> Input:
    """Return the input that arrives as a parameter of `forward`, or as an element of its `*parameter`."""
    if bound.by_name:
        return next(item for item in bound.inputs if item.name == parameter)
    return bound.inputs[[*inspect_signature(bound.module.forward).parameters].index(parameter) + element]


def advise_traced_sizes(root: Path, bound: Bound, caught: Sequence[WarningMessage]) -> str:
    """Return what to do about sizes that the tracer keeps, for a hint; empty without dynamic axes.

    The tracer warns about some of the lines that read a size, and not about a loop.
    """
    if not any(isinstance(axis, str) for item in bound.inputs for axis in item.shape):
        return ""
    lines = [describe_line(*place, root) for place in list_traced_lines(caught) if is_own(place[0], root)]
    at = f" (see {', '.join(lines[:LISTED])})" if lines else ""
    return f"a trace keeps sizes of its example, as a loop over an axis reads them{at}: {REMEDY} in `shape`; or "
