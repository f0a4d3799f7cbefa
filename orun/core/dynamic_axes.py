"""Dynamic axes by name, and axes whose size follows from others: `past + sequence`, `32 * rows`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

BATCH = "batch"  # name of the first axis of an input, where the model gives none; it begins the name of a batch axis
_MADE_UP = re.compile(rf"{BATCH}|.+_\d+")
_NAME = r"[A-Za-z_][\w.]*"
_FACTORS = rf"(?:{_NAME}|\d+)(?:\s*\*\s*(?:{_NAME}|\d+))*"
_SUM = re.compile(rf"{_FACTORS}(?:\s*\+\s*{_FACTORS})*")


def list_names(axis: str) -> tuple[str, ...]:
    """Return the axes that an axis follows from: itself, unless it is a sum or a multiple of others."""
    if not _is_derived(axis):
        return (axis,)
    return tuple(dict.fromkeys(part for factors in _split_terms(axis) for part in factors if not part.isdigit())) or (
        axis,
    )


def list_free(shapes: Iterable[Iterable[int | str]]) -> tuple[str, ...]:
    """Return the dynamic axes of these shapes whose size follows from no other; axes of a shape itself come first."""
    dynamic = [axis for shape in shapes for axis in shape if isinstance(axis, str)]
    plain = [axis for axis in dynamic if list_names(axis) == (axis,)]
    return tuple(dict.fromkeys([*plain, *(name for axis in dynamic for name in list_names(axis))]))


def compute_size(axis: str, sizes: Mapping[str, int]) -> int:
    """Return the size of an axis for which all axes of `list_names` are known."""
    return int(substitute(axis, sizes))


def substitute(axis: str, sizes: Mapping[str, int]) -> int | str:
    """Return an axis with the known sizes filled in: its size, or the rest of its expression."""
    if axis in sizes:
        return sizes[axis]
    if not _is_derived(axis):
        return axis
    known, left = 0, []
    for factors in _split_terms(axis):
        number, unknown = 1, []
        for part in factors:
            value = int(part) if part.isdigit() else sizes.get(part)
            if value is None:
                unknown.append(part)
            else:
                number *= value
        if not unknown:
            known += number
        elif number:
            left.append(" * ".join([str(number)] * (number != 1) + unknown))
    return " + ".join([*left, *([str(known)] if known else [])]) if left else known


def rename(axis: str, names: Mapping[str, str]) -> str:
    """Return an axis with other names for itself, or for those that it follows from."""
    if axis in names or not _is_derived(axis):
        return names.get(axis, axis)
    return re.sub(_NAME, lambda match: names.get(match[0], match[0]), axis)


def find_batch_index(shape: Sequence[int | str | None]) -> int:
    """Return the place of the axis that holds the batch: the one whose name begins with `batch`, else the first."""
    return next((place for place, axis in enumerate(shape) if isinstance(axis, str) and axis.startswith(BATCH)), 0)


def is_unbatched(shape: Sequence[int | str | None]) -> bool:
    """Return whether an input of a model has no axis for a batch in front.

    That is so without any axis, if another axis is named after the batch, and if the first has a fixed size above 1.
    """
    return not shape or find_batch_index(shape) > 0 or (isinstance(shape[0], int) and shape[0] != 1)


def list_batch_axes(shapes: Iterable[Sequence[int | str]]) -> set[int | str]:
    """Return the axis of each shape that holds the batch."""
    return {shape[find_batch_index(shape)] for shape in shapes if shape}


def make_name(name: str, place: int) -> str:
    """Return a name for a dynamic axis of an input of a framework's model, where axes have no names."""
    return BATCH if place == 0 else f"{name}_{place}"


def is_made_up(axis: str) -> bool:
    """Return whether the name of an axis may come from `make_name`."""
    return _MADE_UP.fullmatch(axis) is not None


def _is_derived(axis: str) -> bool:
    """Return whether an axis is a sum or a multiple, and not merely a name with such characters."""
    return ("+" in axis or "*" in axis) and _SUM.fullmatch(axis.strip()) is not None


def _split_terms(axis: str) -> list[list[str]]:
    return [[part.strip() for part in factors.split("*")] for factors in axis.split("+")]
