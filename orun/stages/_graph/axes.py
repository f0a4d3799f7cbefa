"""Dynamic axes by name, and those whose size follows from others: `past + sequence`, `32 * rows`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

BATCH = "batch"  # of an axis that comes first in an input, and that nobody has named
_MADE_UP = re.compile(rf"{BATCH}|.+_\d+")
_NAME = r"[A-Za-z_][\w.]*"
_FACTORS = rf"(?:{_NAME}|\d+)(?:\s*\*\s*(?:{_NAME}|\d+))*"
_SUM = re.compile(rf"{_FACTORS}(?:\s*\+\s*{_FACTORS})*")


def names(axis: str) -> tuple[str, ...]:
    """The axes that an axis follows from: itself, unless it is a sum or a multiple of others."""
    if not _follows(axis):
        return (axis,)
    return tuple(dict.fromkeys(part for factors in _terms(axis) for part in factors if not part.isdigit())) or (axis,)


def free(shapes: Iterable[Iterable[int | str]]) -> tuple[str, ...]:
    """The dynamic axes of these shapes that have sizes of their own, each once; those in plain sight come first."""
    found = [axis for shape in shapes for axis in shape if isinstance(axis, str)]
    plain = [axis for axis in found if names(axis) == (axis,)]
    return tuple(dict.fromkeys([*plain, *(name for axis in found for name in names(axis))]))


def size(axis: str, sizes: Mapping[str, int]) -> int:
    """The size of an axis where those of `names` are known."""
    return int(fixed(axis, sizes))


def fixed(axis: str, sizes: Mapping[str, int]) -> int | str:
    """An axis where some are known: its size, or the axis that is left of it."""
    if axis in sizes:
        return sizes[axis]
    if not _follows(axis):
        return axis
    known, left = 0, []
    for factors in _terms(axis):
        number, unknown = 1, []
        for part in factors:
            given = int(part) if part.isdigit() else sizes.get(part)
            if given is None:
                unknown.append(part)
            else:
                number *= given
        if not unknown:
            known += number
        elif number:
            left.append(" * ".join([str(number)] * (number != 1) + unknown))
    return " + ".join([*left, *([str(known)] if known else [])]) if left else known


def made_up(name: str, place: int) -> str:
    """The name of a dynamic axis of an input of a framework's model, in which it has none."""
    return BATCH if place == 0 else f"{name}_{place}"


def is_made_up(axis: str) -> bool:
    """Whether `made_up` may have named an axis."""
    return _MADE_UP.fullmatch(axis) is not None


def _follows(axis: str) -> bool:
    """Whether it is a sum or a multiple, and no name that a tool made up."""
    return ("+" in axis or "*" in axis) and _SUM.fullmatch(axis.strip()) is not None


def _terms(axis: str) -> list[list[str]]:
    return [[part.strip() for part in factors.split("*")] for factors in axis.split("+")]
