"""The examples of a dataset by the values of its fields."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orun.errors import StageFailed
from orun.measure.accuracy.names import LABEL, sliced
from orun.measure.accuracy.request import Request
from orun.measure.dataset import Array, Dataset

MOST = 100  # values of a field, above which it does not tell slices but examples apart


@dataclass(frozen=True, eq=False)
class Slice:
    """The examples that have one value in one field; `examples` are their indices, `[n]`."""

    field: str
    value: object
    examples: NDArray[np.intp]

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self.examples)

    def name(self, metric: str) -> str:
        """What a metric of them is called."""
        return sliced(metric, self.field, self.value)


def slices(request: Request, dataset: Dataset) -> list[Slice]:
    """Every slice of the fields that were asked for.

    Raises:
        StageFailed: when the dataset lacks a field, or it has too many values.
    """
    found: list[Slice] = []
    for field in request.slices:
        column = _column(request, dataset, field)
        values, place = np.unique(column, return_inverse=True)  # which takes all that are no number together
        if len(values) > MOST:
            raise StageFailed(
                request.stage,
                f"slices: {field} has {len(values)} values among {len(dataset)} examples",
                why=f"at most {MOST} are measured by themselves",
                hint="add a field of coarser values to the dataset: orun.Dataset(..., fields={...})",
            )
        found += [Slice(field, value, np.flatnonzero(place == number)) for number, value in enumerate(values.tolist())]
    return found


def _column(request: Request, dataset: Dataset, field: str) -> Array:
    if field == LABEL and dataset.labels is not None and dataset.labels.ndim == 1:
        return dataset.labels
    if field not in dataset.fields:
        known = [*([LABEL] if dataset.labels is not None and dataset.labels.ndim == 1 else []), *dataset.fields]
        raise StageFailed(
            request.stage,
            f"slices: the dataset has no field {field}",
            why=f"it has {', '.join(known) or 'none'}",
            hint=f"give it one: orun.Dataset(..., fields={{'{field}': [...]}}); of a table, `fields: [{field}]`",
        )
    found = dataset.fields[field]
    return found if found.dtype != object else np.array([str(value) for value in found])  # of types that do not compare
