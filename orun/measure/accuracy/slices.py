"""Slices of a dataset: the examples with one value in one of its fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orun.errors import UsageError
from orun.measure.accuracy.names import LABEL, slice_name
from orun.measure.accuracy.request import Request
from orun.measure.dataset import Array, Dataset
from orun.measure.metrics.boxes import read_labels

MOST = 100  # values of a field; with more it tells examples apart, not slices


@dataclass(frozen=True, eq=False)
class Slice:
    """Examples with one value in one field; `examples` are their indices, `[n]`."""

    field: str
    value: object
    examples: NDArray[np.intp]

    @property
    def count(self) -> int:
        """Number of examples."""
        return len(self.examples)

    def name_metric(self, metric: str) -> str:
        """Return the name of a metric of this slice."""
        return slice_name(metric, self.field, self.value)


def list_slices(request: Request, dataset: Dataset) -> list[Slice]:
    """Return the slices by all fields of the request.

    Raises:
        UsageError: if the dataset lacks a field, or a field has too many values.
    """
    parts: list[Slice] = []
    for field in request.slices:
        values, holds = _group(request, dataset, field)
        if len(values) > MOST:
            raise UsageError(
                f"slices: {field} has {len(values)} values among {len(dataset)} examples",
                why=f"at most {MOST} slices of a field are measured",
                hint="add a field of coarser values to the dataset: orun.Dataset(..., fields={...})",
            )
        parts += [Slice(field, value, np.flatnonzero(holds(place))) for place, value in enumerate(values)]
    return parts


def _group(request: Request, dataset: Dataset, field: str) -> tuple[list[Any], Callable[[int], NDArray[np.bool_]]]:
    """Return the values of a field, and a function from the place of a value to whether each example has it."""
    if field == LABEL and request.boxes is not None and dataset.labels is not None:
        classes = [image.classes for image in read_labels(dataset.labels)]
        values = np.unique(np.concatenate(classes))
        return values.tolist(), lambda place: np.array([values[place] in held for held in classes])
    values, of_examples = np.unique(_find_column(dataset, field), return_inverse=True)  # all NaN are one value
    return values.tolist(), lambda place: of_examples == place


def _find_column(dataset: Dataset, field: str) -> Array:
    labels = dataset.labels
    if labels is None or labels.shape[1:] not in ((), (1,)):
        fields = dataset.fields
    else:
        fields = {LABEL: labels.reshape(len(labels)), **dataset.fields}
    if field == LABEL and LABEL not in fields:
        raise UsageError(
            "slices: `label` stands for the labels, and "
            + ("the dataset has none" if labels is None else "these have several values for each example"),
            hint="slice by a field: orun.Dataset(..., fields={'scene': [...]}), `slices: [scene]`",
        )
    if field not in fields:
        raise UsageError(
            f"slices: the dataset has no field {field}",
            why=f"it has {', '.join(fields) or 'none'}",
            hint=f"add it: orun.Dataset(..., fields={{'{field}': [...]}}); of a table, `fields: [{field}]`",
        )
    column = fields[field]
    if field != LABEL and column.dtype == object:  # its values may not be comparable
        return np.array([str(value) for value in column])
    return column
