"""Inputs that a pipeline declares for a TensorFlow model, and their axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from orun.core.dynamic_axes import make_name
from orun.errors import UsageError
from orun.stages.common_parameters import DType, Fill, High, Low
from orun.stages.params import Doc


@dataclass(frozen=True)
class InputSpec:
    """Input of the model."""

    shape: Annotated[
        list[int | str] | None,
        Doc(
            "Axes: a size, the name of a dynamic axis, or a formula of other axes (`past + sequence`, `32 * rows`); "
            "by default those of the model."
        ),
    ] = None
    dtype: Annotated[DType | None, Doc("Type of its values, where the model has none.")] = None
    low: Low = None
    high: High = None
    fill: Fill = "random"


Declared: TypeAlias = Mapping[str, InputSpec]


def choose_axes(name: str, shape: Sequence[int | None] | None, declared: Declared) -> tuple[int | str, ...]:
    """Return the axes of an input: as the pipeline declares them, otherwise the model's, with names for open ones.

    The shape is None where the model leaves the number of axes open.

    Raises:
        UsageError: when the pipeline declares other axes than the model has.
    """
    wanted = declared[name].shape if name in declared else None
    if wanted is None:
        return tuple(
            make_name(name, place) if size is None or size < 0 else size
            for place, size in enumerate([None] if shape is None else shape)
        )
    if shape is not None and not _fits(shape, wanted):
        open_as = ", ".join("?" if size is None or size < 0 else str(size) for size in shape)
        raise UsageError(
            f"inputs: the shape of {name!r} cannot be {list(wanted)}",
            why=f"the model has [{open_as}]",
            hint="name or fix the axes that it leaves open, and repeat the others",
        )
    return tuple(wanted)


def _fits(shape: Sequence[int | None], wanted: Sequence[int | str]) -> bool:
    return len(shape) == len(wanted) and all(
        size is None or size < 0 or size == axis for size, axis in zip(shape, wanted, strict=True)
    )
