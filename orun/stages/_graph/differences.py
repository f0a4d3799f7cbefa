"""Difference of a value from its reference, within a tolerance and the limits of the reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orun.stages._graph.limits import Limit

if TYPE_CHECKING:
    from orun.measure.dataset import Array

MULTIPLE = 10  # allowed error as a multiple of the reference's own spread


@dataclass(frozen=True)
class Tolerance:
    """Allowed error of a value: `atol + rtol * abs(reference)`; integers and text must be equal.

    `bounds` are the type that bounds the candidate's numbers (`float16`) and its largest number, for messages.
    """

    atol: float
    rtol: float
    bounds: tuple[str, float] | None = None

    def __str__(self) -> str:
        return f"{self.atol:g} + {self.rtol:g} x |reference|"


def compare_values(
    right: Array | list[Array], value: Array | list[Array], tolerance: Tolerance | None, limit: Limit | None = None
) -> tuple[str, float]:
    """Return how a value disagrees with its reference, or an empty text, and its largest absolute error.

    NaN and infinity are equal if both sides have them in the same places. For a sequence, the first disagreement is
    returned. With a limit, arbitrary values are equal, and so are integers and text in which the reference differs from
    itself.
    """
    import numpy as np

    if isinstance(right, list) and isinstance(value, list):
        if len(right) != len(value):
            return f"{len(value)} values instead of {len(right)}", 0.0
        results = [compare_values(*pair, tolerance) for pair in zip(right, value, strict=True)]
        return next((problem for problem, _ in results if problem), ""), max(
            (error for _, error in results), default=0.0
        )
    if isinstance(right, dict) and isinstance(value, dict):
        if right.keys() != value.keys():
            return "a map with other keys", 0.0
        return compare_values([right[key] for key in right], [value[key] for key in right], tolerance)
    right, value = np.asarray(right), np.asarray(value)
    if right.shape != value.shape or right.dtype != value.dtype:
        return f"{value.dtype}{list(value.shape)} instead of {right.dtype}{list(right.shape)}", 0.0
    if right.dtype.kind != "f":
        differs = right != value
        if limit is not None:
            differs &= ~limit.arbitrary & (limit.spread == 0)
        wrong = int(np.count_nonzero(differs))
        return (f"{wrong} of {right.size} values differ", 0.0) if wrong and tolerance else ("", 0.0)
    return _describe_float_difference(right.astype(np.float64), value.astype(np.float64), tolerance, limit)


def is_finite(value: Any) -> bool:
    """Return whether every number of an output, sequence or map is finite."""
    import numpy as np

    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list):
        return all(map(is_finite, value))
    array = np.asarray(value)
    return array.dtype.kind != "f" or bool(np.isfinite(array.astype(np.float64)).all())


def _describe_float_difference(
    right: Array, value: Array, tolerance: Tolerance | None, limit: Limit | None
) -> tuple[str, float]:
    import numpy as np

    if limit is not None:
        right, value = (np.where(limit.arbitrary, 0.0, array) for array in (right, value))
    finite = np.isfinite(right)
    bad = int(np.count_nonzero(~np.isfinite(value[finite])))
    if bad:
        return f"{bad} of {value.size} values are not finite", 0.0
    error = np.abs(np.where(finite, value, 0.0) - np.where(finite, right, 0.0))
    largest = float(error.max(initial=0.0))
    if tolerance is None:
        return "", largest
    if not np.array_equal(right[~finite], value[~finite], equal_nan=True):
        return "values that are not finite differ", largest
    allowed = tolerance.atol + tolerance.rtol * np.abs(np.where(finite, right, 0.0))
    beyond = error > (allowed if limit is None else np.maximum(allowed, MULTIPLE * limit.spread))
    if not beyond.any():
        return "", largest
    place = np.unravel_index(int(error.argmax()), error.shape)
    return (
        f"{np.count_nonzero(beyond)} of {error.size} values are further off than {tolerance}; "
        f"the worst is {value[place]:.6g} instead of {right[place]:.6g} at {[int(index) for index in place]}"
    ), largest
